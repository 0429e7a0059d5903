"""Which row of the timing table says how long an instruction issues and when its result is there."""

from __future__ import annotations

from asmgen.isa.opcode import Opcode
from asmgen.isa.opcodes.mfma import MfmaRow
from asmgen.isa.waitrules import RULES

_QUARTER = ("v_mul_lo_u32", "v_mul_hi_u32", "v_mul_hi_i32", "v_mad_u64_u32", "v_mad_i64_i32")


def vector_speed(opcode: Opcode) -> str:
    """"valu", "trans", "permlane" or "quarter": the rows `<speed>_issue` and `<speed>_latency` of a vector instruction that is no matrix
    instruction."""
    if "trans" in opcode.classes:
        return "trans"
    if opcode.name.startswith("v_permlane"):
        return "permlane"
    return "quarter" if opcode.name.startswith(_QUARTER) else "valu"


def is_packed_f32(name: str) -> bool:
    """Whether an instruction computes two f32 in a lane; those do not run beside a matrix instruction."""
    return name.startswith("v_pk_") and name.endswith("_f32")


def result_states(row: MfmaRow, arch: str, passes: int) -> int:
    """Wait states before a vector instruction may read the result of a matrix instruction (isa.waitrules)."""
    producer = row.kind if row.kind != "dgemm" else "dgemm16" if row.m == 16 else "dgemm4"
    return max(rule.states_on(arch, passes) for rule in RULES if rule.id == f"{producer}-valu-read")
