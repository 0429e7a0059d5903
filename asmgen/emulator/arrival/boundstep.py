"""One decoded instruction, and what can be said of an instruction without running it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from asmgen.emulator.arrival.arrival import FLAT, LDS, SMEM, VM, RegisterTouch, ranges_of
from asmgen.emulator.machine.kept import kept
from asmgen.emulator.machine.state import Group, Machine
from asmgen.isa.opcode import implicit_reads
from asmgen.isa.operands import SPECIAL_SOURCES, Operand, Special, Waitcnt
from asmgen.isa.records import dataclass
from asmgen.isa.registers import NAMED, Modified, Reg
from asmgen.program.program import Instruction, Program

Action = Callable[[Group], None]


class Late:
    """An action that is bound when it is first needed: most arithmetic runs compiled, and never needs numpy's step."""

    def __init__(self, bind: Callable[[], Action]) -> None:
        self._bind = bind

    @cached_property
    def bound(self) -> Action:
        """The action itself."""
        return self._bind()

    def __call__(self, group: Group) -> None:
        self.bound(group)


@dataclass(frozen=True)
class Step:
    """One decoded instruction. `wait` is what an s_waitcnt settles; `queue` the arrival queue that the instruction joins.

    `instruction` has the registers really meant where relative addressing is on; `run` is None where it changes no data.
    """

    position: int
    instruction: Instruction
    run: Action | None
    touch: RegisterTouch
    queue: int | None
    wait: Waitcnt | None


def wait_of(instruction: Instruction) -> Waitcnt | None:
    """What an s_waitcnt waits for, None for other instructions."""
    operand = instruction.operands[0] if instruction.name == "s_waitcnt" else None
    return operand if isinstance(operand, Waitcnt) else Waitcnt.decode(operand) if isinstance(operand, int) else None


def queue_of(instruction: Instruction) -> int | None:
    """Which arrival queue an instruction joins, None for none (docs/facts/instructions.md section 4)."""
    opcode = instruction.opcode
    if opcode.vmcnt and opcode.lgkmcnt:
        return FLAT
    if opcode.vmcnt:
        return VM
    if opcode.lgkmcnt:
        return LDS if "lds" in opcode.classes else SMEM
    return None


def touch_of(position: int, instruction: Instruction, machine: Machine, queue: int | None) -> RegisterTouch:
    """The registers an instruction reads and writes, as bits of the split unified file."""
    known: dict[str, tuple[int, int, int]] = instruction.__dict__  # launches of a program ask for the same each time
    offset, reads, writes = known.get("_touched", (-1, 0, 0))
    if offset != machine.accum_offset:
        reads, writes = _touched(instruction, machine.accum_offset)
        known["_touched"] = machine.accum_offset, reads, writes
    return RegisterTouch(position, reads, writes, queue, _kept(instruction, machine.accum_offset) if queue is not None else 0)


def _kept(instruction: Instruction, offset: int) -> int:
    """The destination of a load that keeps a half of it, unless it is a source too."""
    if "keep" not in instruction.opcode.flags:
        return 0
    joined = sources = 0
    for _, operand, _, writing in instruction.accesses:
        for reg in registers_of(operand):
            joined |= reg.mask_at(offset) if writing else 0
            sources |= 0 if writing else reg.mask_at(offset)
    return joined & ~sources


def _touched(instruction: Instruction, offset: int) -> tuple[int, int]:
    reads = writes = 0
    source = 0
    for _, operand, reading, writing in instruction.accesses:
        for reg in registers_of(operand):
            mask = reg.mask_at(offset)
            reads |= chosen_halves(instruction, source, mask) if reading else 0
            writes |= mask if writing else 0
        source += reading
    for name in implicit_reads(instruction.opcode, instruction.form):
        reads |= NAMED[name].mask if name in NAMED else 0
    for name in instruction.opcode.writes:
        writes |= NAMED[name].mask if name in NAMED else 0
    return reads, writes


def chosen_halves(instruction: Instruction, source: int, mask: int) -> int:
    """Of the registers `mask` of a source, by its number, those that are read: op_sel may take one of a pair for both results."""
    name = instruction.name
    if not name.startswith("v_pk_") or not name.endswith(("_f32", "_b32")) or mask.bit_count() != 2:
        return mask
    low, high = ((bits[source] if len(bits) > source else default) for bits, default in
                 ((instruction.modifiers.get("op_sel") or (), 0), (instruction.modifiers.get("op_sel_hi") or (), 1)))
    first = mask & -mask
    chosen = {low} if name.endswith("_b32") else {low, high}  # v_pk_mov_b32 takes one register of each source
    return (first if 0 in chosen else 0) | (mask ^ first if 1 in chosen else 0)


def registers_of(operand: Operand) -> list[Reg]:
    """The registers that an operand names, modified or after a special source too."""
    value = operand.value if isinstance(operand, Modified) else operand
    if isinstance(value, Special):
        value = SPECIAL_SOURCES.get(value.name) or value
    return [value] if isinstance(value, Reg) else []


def touched_registers(program: Program, machine: Machine) -> list[tuple[int, int]]:
    """First and last of the vector registers that a program may write: those it names, or all where it names some relative to M0."""
    return kept(program, "_touched_registers", (machine.accum_offset, machine.registers), lambda: _touched_ranges(program, machine))


def _touched_ranges(program: Program, machine: Machine) -> list[tuple[int, int]]:
    mask = 1  # v0 holds the work-item's number
    for instruction in program.instructions:
        if instruction.name.startswith("s_set_gpr_idx") or instruction.name.startswith("s_setreg"):
            return [(0, machine.registers - 1)]
        mask |= touch_of(0, instruction, machine, None).writes
    mask &= (1 << machine.registers) - 1
    return ranges_of(mask)
