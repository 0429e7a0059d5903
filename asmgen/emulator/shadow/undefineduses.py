"""What one instruction reads and writes, as the check for undefined values sees it."""

from __future__ import annotations

from collections.abc import Iterator

from asmgen.codeobject.descriptor import KernelDescriptor
from asmgen.emulator.arrival.boundstep import chosen_halves
from asmgen.emulator.machine.dispatch import Dispatch
from asmgen.isa.opcode import implicit_reads, is_lds_dma
from asmgen.isa.operands import Operand, Special
from asmgen.isa.records import dataclass
from asmgen.isa.registers import NAMED, SGPR_BIT, Modified, Reg, v
from asmgen.program.program import Instruction

ADDRESSES = frozenset({"vaddr", "addr", "saddr", "srsrc", "soffset", "sbase"})
_STORED = frozenset({"vdata", "data0", "data1", "data", "sdata"})
# These compute with what their destination holds; others that read it keep a part of it.
_ACCUMULATES = ("v_fmac_", "v_mac_", "v_dot2c_", "v_dot4c_", "v_dot8c_", "v_pk_fmac_", "v_smfmac_", "v_swap_", "v_permlane", "s_addk_",
                "s_mulk_", "v_cvt_pkaccum_")
_KEEPS_M0 = "s_set_gpr_idx_"
_SCALAR_FLAGS = {"src_scc": NAMED["scc"], "src_vccz": NAMED["vcc"]}
_EXEC = NAMED["exec"].mask
SCALARS = 128
# Vector instructions that EXEC does not hold back.
_ALL_LANES = frozenset({"mfma", "readlane", "writelane"})


@dataclass(frozen=True)
class Use:
    """Reads and writes as bits of the unified file. `keeps`: what of the written registers may stay as it is."""

    reads: int
    writes: int
    keeps: int
    addresses: int  # registers that must be defined
    decides: int  # of a branch, that where it goes depends on
    by_lane: bool  # nothing happens where EXEC is 0
    to_exec: bool


def use_of(instruction: Instruction, accum_offset: int) -> Use:
    """The check's view of an instruction. EXEC is always defined."""
    kept: dict[str, tuple[int, Use]] = instruction.__dict__  # programs that share instructions ask for the same
    known = kept.get("_use")
    if known is None or known[0] != accum_offset:
        known = kept["_use"] = accum_offset, _use(instruction, accum_offset)
    return known[1]


def vectors_in(mask: int, registers: int) -> list[int]:
    """Those of the first so many vector registers that are in a set, ascending."""
    return list(bits_of(mask & (1 << registers) - 1))


def scalars_in(mask: int) -> list[int]:
    """The scalar registers that are in a set, ascending, with those of names."""
    return list(bits_of(mask >> SGPR_BIT & (1 << SCALARS) - 1))


def bits_of(mask: int) -> Iterator[int]:
    """The numbers of the bits that are set."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _use(instruction: Instruction, accum_offset: int) -> Use:
    opcode = instruction.opcode
    row = opcode.memory
    reads = writes = keeps = addresses = 0
    source = -1
    for location, operand, reading, writing in instruction.accesses:
        mask = _mask(operand, accum_offset)
        writes |= mask if writing else 0
        keeps |= mask if writing and (reading or "keep" in opcode.flags) else 0
        source += reading
        stored = row is not None and row.kind in ("store", "atomic") and location.name in _STORED
        if not reading or writing and not stored and not opcode.name.startswith(_ACCUMULATES):
            continue
        mask = chosen_halves(instruction, source, mask)
        reads |= mask
        if location.name in ADDRESSES and row is not None:
            addresses |= mask
    for name in implicit_reads(opcode, instruction.form):
        if name in NAMED and not opcode.name.startswith(_KEEPS_M0):
            reads |= NAMED[name].mask
            if name == "m0" and is_lds_dma(opcode, instruction.form):
                addresses |= NAMED[name].mask
    for name in opcode.writes:
        writes |= NAMED[name].mask if name in NAMED else 0
    decides = 0
    if instruction.is_branch:
        decides = NAMED["scc"].mask if "scc" in opcode.name else NAMED["vcc"].mask if "vcc" in opcode.name else reads
        reads |= decides
    if opcode.name.startswith("v_writelane"):
        keeps |= writes
    scalar = opcode.name.startswith("s_") or bool(opcode.classes & _ALL_LANES) and opcode.name != "v_readfirstlane_b32"
    return Use(reads & ~_EXEC, writes & ~_EXEC, keeps & ~_EXEC, addresses & ~_EXEC, decides & ~_EXEC, not scalar, bool(writes & _EXEC))


def _mask(operand: Operand, accum_offset: int) -> int:
    value = operand.value if isinstance(operand, Modified) else operand
    if isinstance(value, Special):
        value = _SCALAR_FLAGS.get(value.name, value)
    return value.mask_at(accum_offset) if isinstance(value, Reg) else 0


def defined_at_start(descriptor: KernelDescriptor, dispatch: Dispatch) -> int:
    """The registers that the hardware fills: user and system SGPRs, v0, EXEC, and those that no kernel writes."""
    mask = v[0].mask | _EXEC
    for name, reg in NAMED.items():
        if name not in ("vcc", "vcc_lo", "vcc_hi", "m0", "scc"):
            mask |= reg.mask
    for name, index, count in descriptor.sgpr_layout():
        if name != "kernarg_preload" or dispatch.preload:
            mask |= Reg("s", index, count).mask
    return mask
