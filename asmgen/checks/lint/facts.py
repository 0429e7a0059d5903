"""What a file says about a kernel besides its instructions: registers, LDS and user SGPRs, from descriptor or directives."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from asmgen.codeobject.textmetadata import text_metadata
from asmgen.isa.arch import MOST_WORK_ITEMS, architecture
from asmgen.isa.registers import NAMED, SGPR_BIT, TTMP_BASE, TTMP_COUNT, Reg

if TYPE_CHECKING:
    from asmgen.codeobject.load import CodeObject

_KERNEL = re.compile(r"^\s*\.amdhsa_kernel\s+(\S+)\s*$(.*?)^\s*\.end_amdhsa_kernel", re.MULTILINE | re.DOTALL)
# Numbers as LLVM writes them, octal after a 0; longer ones than any that a kernel can mean are not known.
_DIRECTIVE = re.compile(r"^\s*\.amdhsa_(\w+)\s+(?:(0x[0-9a-fA-F]{1,8}|[1-9]\d{0,9})|(0[0-7]{0,11}))\s*(?:;.*|//.*)?$", re.MULTILINE)
_DIRECTIVE_NAME = re.compile(r"^\s*\.amdhsa_(\w+)", re.MULTILINE)
_USER_SGPRS = {"private_segment_buffer": 4, "dispatch_ptr": 2, "queue_ptr": 2, "kernarg_segment_ptr": 2, "dispatch_id": 2,
               "flat_scratch_init": 2, "private_segment_size": 1}


@dataclass(frozen=True)
class KernelFacts:
    """Sizes that a kernel asks for; None where the file does not say. `vgprs` is the whole allocation, rounded up to the granule."""

    vgprs: int | None = None
    wanted: int | None = None  # before rounding
    accum_offset: int | None = None
    lds: int | None = None
    user_sgprs: int | None = None
    block: tuple[int, int, int] | None = None  # as many work-items as a workgroup may have
    most: int | None = None  # the same in all dimensions together
    workgroup_info: int | None = None  # the SGPR that begins with it
    filled: int | None = None  # the registers that hold something when waves begin; None for a kernel that is given nothing


def facts_of_code_object(code_object: CodeObject) -> dict[str, KernelFacts]:
    """By kernel name."""
    found = {}
    for name, kernel in code_object.kernels.items():
        descriptor = kernel.descriptor
        found[name] = KernelFacts(descriptor.vgprs, kernel.resources.vgpr_count or descriptor.vgprs, descriptor.accum_offset,
                                  descriptor.group_segment_fixed_size, descriptor.user_sgpr_count,
                                  block_of(kernel.metadata, descriptor.workitem_id_dims), most_of(kernel.metadata),
                                  next((at for name, at, _ in descriptor.sgpr_layout() if name == "workgroup_info"), None),
                                  _filled(descriptor.user_sgpr_count,
                                          max((at + count for _, at, count in descriptor.sgpr_layout()), default=0)))
    return found


def facts_of_text(text: str, arch: str) -> dict[str, KernelFacts]:
    """By kernel name, from .amdhsa_ directives with plain numbers; others stay unknown, and so does what follows from them."""
    profile = architecture(arch)
    described = text_metadata(text)
    found = {}
    for match in _KERNEL.finditer(text):
        values = {row[1]: int(row[2], 0) if row[2] else int(row[3], 8) for row in _DIRECTIVE.finditer(match[2])}
        wanted = values.get("next_free_vgpr")
        unknown = {name for name in _DIRECTIVE_NAME.findall(match[2]) if name not in values}
        users = _users_of(values, unknown)
        dims = 2 if "system_vgpr_workitem_id" in unknown else values.get("system_vgpr_workitem_id", 0)
        given = None if any(name.startswith("system_sgpr_workgroup_") for name in unknown) else users
        found[match[1]] = KernelFacts(profile.allocated_vgprs(wanted) if wanted is not None else None, wanted,
                                      values.get("accum_offset"), values.get("group_segment_fixed_size"), users,
                                      block_of(described.get(match[1], {}), dims),
                                      most_of(described.get(match[1], {})), _info_of(values, given),
                                      _filled(given, (given or 0) + sum(bool(values.get(f"system_sgpr_workgroup_{one}", one == "id_x"))
                                                                        for one in ("id_x", "id_y", "id_z", "info"))))
    return found


def _users_of(values: Mapping[str, int], unknown: Collection[str]) -> int | None:
    """How many user SGPRs directives ask for; None where one of those `unknown` has a say in it."""
    if "user_sgpr_count" in values:
        return values["user_sgpr_count"]
    counted = {"user_sgpr_count", "user_sgpr_kernarg_preload_length", *(f"user_sgpr_{name}" for name in _USER_SGPRS)}
    if not counted.isdisjoint(unknown):
        return None
    return sum(size for name, size in _USER_SGPRS.items() if values.get(f"user_sgpr_{name}")) \
        + values.get("user_sgpr_kernarg_preload_length", 0)


def _filled(users: int | None, sgprs: int) -> int | None:
    """What waves begin with: so many SGPRs, the packed work-item number, and what hardware and trap handler keep.

    A descriptor without user SGPRs gives a kernel no arguments: nobody says what such code begins with, nor where they are not known.
    """
    if not users:
        return None
    return 1 | (1 << sgprs) - 1 << SGPR_BIT | NAMED["exec"].mask | NAMED["flat_scratch"].mask | NAMED["xnack_mask"].mask \
        | Reg("s", TTMP_BASE, TTMP_COUNT).mask


def _info_of(values: Mapping[str, int], users: int | None) -> int | None:
    """Where directives put the workgroup's info: after user SGPRs and ids, of which x is there by default."""
    if users is None or not values.get("system_sgpr_workgroup_info"):
        return None
    return users + sum(bool(values.get(f"system_sgpr_workgroup_id_{axis}", axis == "x")) for axis in "xyz")


def block_of(metadata: Mapping[str, Any], dims: int) -> tuple[int, int, int] | None:
    """The workgroup of a kernel: as its metadata requires it, else the largest in one dimension where v0 holds no other (`dims` 0)."""
    required, most = metadata.get(".reqd_workgroup_size"), most_of(metadata)
    if isinstance(required, list) and len(required) == 3 and all(type(size) is int and 0 < size <= MOST_WORK_ITEMS for size in required):
        x, y, z = required
        return (x, y, z) if x * y * z <= MOST_WORK_ITEMS else None
    return (most, 1, 1) if most is not None and not dims else None


def most_of(metadata: Mapping[str, Any]) -> int | None:
    """How many work-items a workgroup of a kernel may have."""
    most = metadata.get(".max_flat_workgroup_size")
    return most if type(most) is int and 0 < most <= MOST_WORK_ITEMS else None
