"""What a file says about a kernel besides its instructions: registers, LDS and user SGPRs, from descriptor or directives."""

from __future__ import annotations

import re
from dataclasses import dataclass

from asmgen.codeobject.load import CodeObject
from asmgen.codeobject.textmetadata import text_metadata
from asmgen.isa.arch import architecture

_KERNEL = re.compile(r"^\s*\.amdhsa_kernel\s+(\S+)\s*$(.*?)^\s*\.end_amdhsa_kernel", re.MULTILINE | re.DOTALL)
_DIRECTIVE = re.compile(r"^\s*\.amdhsa_(\w+)\s+(0x[0-9a-fA-F]+|\d+)\s*(?:;.*|//.*)?$", re.MULTILINE)
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
    workitems: int | None = None  # the most of a workgroup


def facts_of_code_object(code_object: CodeObject) -> dict[str, KernelFacts]:
    """By kernel name."""
    found = {}
    for name, kernel in code_object.kernels.items():
        descriptor = kernel.descriptor
        found[name] = KernelFacts(descriptor.vgprs, kernel.resources.vgpr_count or descriptor.vgprs, descriptor.accum_offset,
                                  descriptor.group_segment_fixed_size, descriptor.user_sgpr_count,
                                  kernel.resources.max_flat_workgroup_size if kernel.metadata else None)
    return found


def facts_of_text(text: str, arch: str) -> dict[str, KernelFacts]:
    """By kernel name, from .amdhsa_ directives with plain numbers; others stay unknown."""
    profile = architecture(arch)
    described = text_metadata(text)
    found = {}
    for match in _KERNEL.finditer(text):
        values = {row[1]: int(row[2], 0) for row in _DIRECTIVE.finditer(match[2])}
        wanted = values.get("next_free_vgpr")
        users = values.get("user_sgpr_count")
        if users is None:
            users = sum(size for name, size in _USER_SGPRS.items() if values.get(f"user_sgpr_{name}"))
            users += values.get("user_sgpr_kernarg_preload_length", 0)
        workitems = described.get(match[1], {}).get(".max_flat_workgroup_size")
        found[match[1]] = KernelFacts(profile.allocated_vgprs(wanted) if wanted is not None else None, wanted,
                                      values.get("accum_offset"), values.get("group_segment_fixed_size"), users,
                                      workitems if isinstance(workitems, int) else None)
    return found
