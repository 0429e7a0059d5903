"""The 64-byte kernel descriptor, and which scalar registers a wave finds filled in when it starts."""

from __future__ import annotations

import struct

from asmgen.isa.errors import AsmgenError
from asmgen.isa.records import dataclass

DESCRIPTOR_BYTES = 64
CODE_ALIGNMENT = 256  # bytes; the hardware's program address drops the low 8 bits (docs/facts/instructions.md section 6)
PRELOAD_SKIP = 256  # bytes; where firmware that preloads starts, after the kernel's entry (docs/facts/instructions.md section 4)

_LAYOUT = struct.Struct("<III4xq20xIIIHH4x")

# field: (word, lowest bit, width); source: docs/facts/instructions.md section 6, the rest of the bits from LLVM's AMDGPU usage guide.
_BITS: dict[str, tuple[str, int, int]] = {
    "round32": ("rsrc1", 12, 2),
    "round16_64": ("rsrc1", 14, 2),
    "denorm32": ("rsrc1", 16, 2),
    "denorm16_64": ("rsrc1", 18, 2),
    "dx10_clamp": ("rsrc1", 21, 1),
    "ieee_mode": ("rsrc1", 23, 1),
    "fp16_overflow": ("rsrc1", 26, 1),
    "scratch_enable": ("rsrc2", 0, 1),
    "user_sgpr_count": ("rsrc2", 1, 5),
    "workgroup_id_x": ("rsrc2", 7, 1),
    "workgroup_id_y": ("rsrc2", 8, 1),
    "workgroup_id_z": ("rsrc2", 9, 1),
    "workgroup_info": ("rsrc2", 10, 1),
    "workitem_id_dims": ("rsrc2", 11, 2),
    "fp_exceptions": ("rsrc2", 24, 7),
    "tg_split": ("rsrc3", 16, 1),
    "private_segment_buffer": ("properties", 0, 1),
    "dispatch_ptr": ("properties", 1, 1),
    "queue_ptr": ("properties", 2, 1),
    "kernarg_segment_ptr": ("properties", 3, 1),
    "dispatch_id": ("properties", 4, 1),
    "flat_scratch_init": ("properties", 5, 1),
    "private_segment_size": ("properties", 6, 1),
    "uses_dynamic_stack": ("properties", 11, 1),
    "preload_length": ("preload", 0, 7),
    "preload_offset": ("preload", 7, 9),
}

# User SGPRs in the order in which the hardware fills them, with their sizes (docs/facts/instructions.md section 4).
_USER_SGPRS = (
    ("private_segment_buffer", 4),
    ("dispatch_ptr", 2),
    ("queue_ptr", 2),
    ("kernarg_segment_ptr", 2),
    ("dispatch_id", 2),
    ("flat_scratch_init", 2),
    ("private_segment_size", 1),
)
# gfx942 and gfx950 have architected flat scratch: no wave offset follows, scratch or not (seen in llc's argumentInfo for both).
_SYSTEM_SGPRS = ("workgroup_id_x", "workgroup_id_y", "workgroup_id_z", "workgroup_info")


class CodeObjectError(AsmgenError):
    """A code object cannot be read, or a kernel asks for resources that no code object can describe."""


@dataclass(frozen=True)
class KernelDescriptor:
    """One kernel descriptor, decoded; sizes in bytes, bits named as in LLVM's .amdhsa_ directives.

    Source: docs/facts/instructions.md section 6.
    """

    group_segment_fixed_size: int  # LDS
    private_segment_fixed_size: int  # scratch of one lane
    kernarg_size: int
    entry_offset: int  # from the descriptor's own address to the kernel's entry
    rsrc1: int
    rsrc2: int
    rsrc3: int
    properties: int
    preload: int
    vgprs: int  # whole unified file, rounded up to the granule of 8
    sgprs: int  # rounded up to 8, extras (vcc, flat_scratch, xnack_mask) included
    accum_offset: int  # a0 is this register of the unified file
    round32: int
    round16_64: int
    denorm32: int  # 0 flushes, 3 keeps
    denorm16_64: int
    dx10_clamp: bool
    ieee_mode: bool
    fp16_overflow: bool
    scratch_enable: bool
    user_sgpr_count: int  # preloaded arguments included
    workgroup_id_x: bool
    workgroup_id_y: bool
    workgroup_id_z: bool
    workgroup_info: bool
    workitem_id_dims: int  # 0: v0 is x; 1: x and y; 2: x, y and z
    fp_exceptions: int  # seven trap enables, invalid first
    tg_split: bool
    private_segment_buffer: bool
    dispatch_ptr: bool
    queue_ptr: bool
    kernarg_segment_ptr: bool
    dispatch_id: bool
    flat_scratch_init: bool
    private_segment_size: bool
    uses_dynamic_stack: bool
    preload_length: int  # dwords
    preload_offset: int  # dwords into the kernel arguments

    @classmethod
    def from_bytes(cls, data: bytes) -> KernelDescriptor:
        """Decodes exactly 64 bytes; raises CodeObjectError for any other length."""
        if len(data) != DESCRIPTOR_BYTES:
            raise CodeObjectError(f"a kernel descriptor has {DESCRIPTOR_BYTES} bytes, not {len(data)}")
        lds, scratch, kernarg, entry, rsrc3, rsrc1, rsrc2, properties, preload = _LAYOUT.unpack(data)
        words = {"rsrc1": rsrc1, "rsrc2": rsrc2, "rsrc3": rsrc3, "properties": properties, "preload": preload}
        fields: dict[str, int] = {}
        for name, (word, low, width) in _BITS.items():
            value = words[word] >> low & (1 << width) - 1
            fields[name] = bool(value) if width == 1 else value
        return cls(
            group_segment_fixed_size=lds,
            private_segment_fixed_size=scratch,
            kernarg_size=kernarg,
            entry_offset=entry,
            vgprs=((rsrc1 & 0x3F) + 1) * 8,
            sgprs=((rsrc1 >> 6 & 0xF) + 1) * 8,
            accum_offset=((rsrc3 & 0x3F) + 1) * 4,
            **words,
            **fields,  # type: ignore[arg-type]  # one-bit fields were made bool above
        )

    @property
    def float_mode(self) -> int:
        """The initial MODE[7:0]: rounding in bits 3:0, denormals in bits 7:4 (0xc0 in most production kernels)."""
        return self.rsrc1 >> 12 & 0xFF

    def sgpr_layout(self) -> list[tuple[str, int, int]]:
        """The SGPRs filled at start-up, in order: (name, first SGPR, count).

        User SGPRs first, then preloaded arguments ("kernarg_preload"), then, from user_sgpr_count on, the workgroup's ids
        and info. A user SGPR that user_sgpr_count leaves no room for is not filled and not listed.
        """
        users = [(name, count) for name, count in _USER_SGPRS if getattr(self, name)]
        users.append(("kernarg_preload", self.preload_length))
        return initial_sgprs(users, self.user_sgpr_count, [name for name in _SYSTEM_SGPRS if getattr(self, name)])


def initial_sgprs(users: list[tuple[str, int]], user_count: int, system: list[str]) -> list[tuple[str, int, int]]:
    """Places user SGPRs (name, count) from s0 and one-register system SGPRs from s[user_count]: (name, first SGPR, count)."""
    layout = []
    at = 0
    for name, count in users:
        if count and at + count <= user_count:
            layout.append((name, at, count))
        at += count
    return layout + [(name, user_count + index, 1) for index, name in enumerate(system)]
