"""Mutants of what a kernel computes: a maximum that misses a source, a rescale that is dropped, sums over k in another order.

The formula of the result is the same in some of them: exp(x - m) / sum exp(x - m) takes any m, and a sum any order.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from asmgen.checks.mutants.mutants import Mutant
from asmgen.isa.check import resolve
from asmgen.isa.registers import Modified, Reg
from asmgen.program.program import Instruction, Item, Program

MAXIMUM, RESCALE, K_ORDER = "maximum", "rescale", "k order"
VALUE_KINDS = (MAXIMUM, RESCALE, K_ORDER)
_EXTREMES = ("v_max_f", "v_min_f", "v_max3_f", "v_min3_f", "v_pk_max_f", "v_pk_min_f", "v_maximum3_f", "v_minimum3_f")
_PRODUCTS = ("v_mul_f32", "v_pk_mul_f32")
_APART = 64
"""Instructions between two products of one accumulator at most."""


def value_mutants(program: Program) -> Iterator[Mutant]:
    """All of them, kind by kind."""
    yield from _narrower(program)
    yield from _unscaled(program)
    yield from _exchanged(program)


def drawn(program: Program, count: int, seed: int) -> list[Mutant]:
    """`count` of them, as many of each kind as there are."""
    chance = random.Random(seed)
    found = {kind: [mutant for mutant in value_mutants(program) if mutant.kind == kind] for kind in VALUE_KINDS}
    for some in found.values():
        chance.shuffle(some)
    drawn: list[Mutant] = []
    while len(drawn) < count and any(found.values()):
        drawn += [some.pop() for some in found.values() if some]
    return drawn[:count]


def _narrower(program: Program) -> Iterator[Mutant]:
    """A maximum or minimum that takes one of its sources twice, and another one not at all."""
    for item in program.instructions:
        if item.name.startswith(_EXTREMES):
            _, *sources = item.operands
            for slot, source in enumerate(sources):
                other = sources[slot - 1]
                if _bare(source) != _bare(other) and isinstance(_bare(other), Reg):
                    operands = (item.operands[0], *sources[:slot], other, *sources[slot + 1:])
                    if (made := _made(item, operands, program.arch)) is not None:
                        yield Mutant(MAXIMUM, f"{item.text} without {source}", item, _with(program, (item, made)))


def _unscaled(program: Program) -> Iterator[Mutant]:
    """A product that multiplies a register in place, left out."""
    for item in program.instructions:
        if item.name.startswith(_PRODUCTS) and isinstance(item.operands[0], Reg) and item.operands[0] in map(_bare, item.operands[1:]):
            items = tuple(other for other in program.items if other is not item)
            yield Mutant(RESCALE, f"{item.text} deleted", item, program.with_items(items))


def _exchanged(program: Program) -> Iterator[Mutant]:
    """Two products in a row of one accumulator, which take each other's A and B where both have these already."""
    last: dict[Reg, tuple[int, Instruction]] = {}
    for position, item in enumerate(program.instructions):
        if "mfma" not in item.opcode.classes or len(item.operands) < 4 or item.operands[0] != item.operands[3]:
            continue
        target = item.operands[0]
        assert isinstance(target, Reg)
        if target in last and position - last[target][0] <= _APART and last[target][1].name == item.name:
            start, first = last[target]
            taken = [one for one in (*first.operands[1:3], *item.operands[1:3]) if isinstance(one, Reg)]
            written = [reg for other in program.instructions[start:position] for _, reg, _, writes in other.accesses
                       if writes and isinstance(reg, Reg)]
            leaves = any("branch" in other.name for other in program.instructions[start:position])
            if not leaves and not any(one.overlaps(reg) for one in taken for reg in written):
                swapped = [(one, replace(one, operands=(one.operands[0], *other.operands[1:3], *one.operands[3:])))
                           for one, other in ((first, item), (item, first))]
                yield Mutant(K_ORDER, f"{first.text} and {item.text} exchanged", first, _with(program, *swapped))
        last[target] = position, item


def _bare(operand: object) -> object:
    return operand.value if isinstance(operand, Modified) else operand


def _made(item: Instruction, operands: tuple[object, ...], arch: str) -> Instruction | None:
    try:
        return replace(item, operands=operands, form=resolve(item.opcode, operands, item.modifiers, arch))  # type: ignore[arg-type]
    except ValueError:
        return None


def _with(program: Program, *instead: tuple[Instruction, Instruction]) -> Program:
    changed: dict[int, Item] = {id(old): new for old, new in instead}
    return program.with_items(tuple(changed.get(id(item), item) for item in program.items))
