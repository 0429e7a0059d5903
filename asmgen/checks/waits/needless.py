"""Waits and barriers of a program that others make needless, and waits that may let more pass."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from asmgen.checks.waits.verify import Verifier
from asmgen.isa.arch import architecture
from asmgen.isa.check import resolve
from asmgen.isa.operands import Waitcnt
from asmgen.isa.table import opcode
from asmgen.program.program import Instruction, Program


def weakest(program: Program, removable: Iterable[int], counted: Iterable[int] = ()) -> Program:
    """The program with those waits and barriers (by position) as weak as verification still finds no error, the first ones first. The
    `removable` ones go, or stay as they are; waits that are `counted` go, or let as much vector memory be in flight as they may.

    The program is verified once. What goes leaves an s_nop while the others are judged, so that positions stay.
    """
    waits = _Waits(program)
    nothing = Instruction(opcode("s_nop"), resolve(opcode("s_nop"), (0,), {}, program.arch), (0,))
    gone = {waits.numbers[position] for position in removable if waits.serves(position, nothing)}
    for position in counted:
        wait = program.instructions[position]
        if waits.serves(position, nothing):
            gone.add(waits.numbers[position])
            continue
        for count in range(1, architecture(program.arch).vmcnt_max):
            if not waits.serves(position, replace(wait, operands=(Waitcnt(vmcnt=count),))):
                break
    return program.with_items([item for number, item in enumerate(waits.verifier.program.items) if number not in gone])


class _Waits:
    """A program, changed as long as verification finds no error: `verifier` is of what it has become, `numbers` its items' by position."""

    def __init__(self, program: Program) -> None:
        self.verifier = Verifier(program, notes=False)
        self.numbers = [number for number, item in enumerate(program.items) if isinstance(item, Instruction)]

    def serves(self, position: int, instead: Instruction) -> bool:
        """Whether an instruction serves there as the weaker one, where it stands then."""
        number, items = self.numbers[position], self.verifier.program.items
        changed = self.verifier.program.with_items([*items[:number], instead, *items[number + 1:]])
        weaker, found = self.verifier.weaker(changed, position)
        if any(one.severity == "error" for one in found):
            return False
        self.verifier = weaker
        return True
