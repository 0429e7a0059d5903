"""Reads of LDS that no atomic disturbs: guesses that a compare-and-swap checks, reads of a loop that waits for others, and flat loads
with scope bits.

Compilers make plain reads of atomic loads from LDS, so that nothing in the instruction tells them from others.
"""

from __future__ import annotations

from asmgen.emulator.machine.polling import polling
from asmgen.emulator.machine.ways import Ways
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction, Program


def guesses(program: Program) -> frozenset[int]:
    """The positions of reads after which, on some way, the same address is compared and swapped, of reads that a loop without stores
    and barriers repeats at one address, and of atomic loads."""
    swaps = [position for position, instruction in enumerate(program.instructions)
             if _in_lds(instruction, "atomic") and instruction.name.startswith(("ds_cmpst_", "flat_atomic_cmpswap"))]
    reads = [position for position, instruction in enumerate(program.instructions) if _reads_one_location(instruction)]
    if not reads:
        return frozenset()
    polls = polling(program, _reads_one_location, frozenset({"s_barrier"}))
    ways = Ways(program) if swaps else None
    known = {position for position in reads if id(program.instructions[position]) in polls or _scoped(program.instructions[position])}
    return frozenset(position for position in reads
                     if position in known or ways is not None and _is_compared(program, ways, position, swaps))


def _is_compared(program: Program, ways: Ways, read: int, swaps: list[int]) -> bool:
    """Whether one of the swaps, at the place that was read, can be reached with no barrier and no write of its address register between."""
    location = _location(program.instructions[read])
    targets = {position for position in swaps if _same(location, _location(program.instructions[position]))}
    if location is None or not targets:
        return False
    waiting, seen = [read], set[int]()
    while waiting:
        position = waiting.pop()
        instruction = program.instructions[position]
        if instruction.writes & location[0].mask or instruction.name == "s_barrier":
            continue
        piece = ways.piece_of[position]
        following = [position + 1] if position < ways.pieces[piece].last else \
            [ways.pieces[number].first for number in ways.following(piece, False)]
        if not targets.isdisjoint(following):
            return True
        waiting += [other for other in following if other not in seen]
        seen.update(following)
    return False


def _in_lds(instruction: Instruction, kind: str) -> bool:
    """Flat ones may be."""
    row = instruction.opcode.memory
    return row is not None and row.space in ("lds", "flat") and row.kind == kind


def _reads_one_location(instruction: Instruction) -> bool:
    return _in_lds(instruction, "load") and "two" not in instruction.opcode.flags and "tr" not in instruction.opcode.flags


def _scoped(instruction: Instruction) -> bool:
    return bool(instruction.modifiers.get("sc0") or instruction.modifiers.get("sc1"))


def _location(instruction: Instruction) -> tuple[Reg, int, int] | None:
    """The register with the address, the offset and the size."""
    row = instruction.opcode.memory
    named = {spec.name: operand for spec, operand in zip(instruction.form.operands, instruction.operands, strict=True)}
    address = named.get("addr", named.get("vaddr"))
    if row is None or not isinstance(address, Reg):
        return None
    return address, int(instruction.modifiers.get("offset", 0)), row.bytes


def _same(one: tuple[Reg, int, int] | None, other: tuple[Reg, int, int] | None) -> bool:
    """Of a flat address the lower half is the one in LDS."""
    if one is None or other is None:
        return False
    return (one[0].file, one[0].index, *one[1:]) == (other[0].file, other[0].index, *other[1:])
