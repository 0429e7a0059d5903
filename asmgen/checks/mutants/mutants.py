"""Mutants of a finished program: each wait, barrier and required nop made weaker in turn, each swizzle undone, and whether
verification notices.

Every such mutant must be found by lint, by the emulator or by the count of LDS bank conflicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from asmgen.checks.finding.finding import LintFinding
from asmgen.checks.waits import verify as waits
from asmgen.checks.waits.ownloads import LDS_IN_FLIGHT
from asmgen.checks.waitstates import passes as hazards
from asmgen.isa.arch import architecture
from asmgen.isa.check import resolve
from asmgen.isa.operands import Waitcnt
from asmgen.isa.registers import Reg
from asmgen.isa.table import opcode
from asmgen.program.controlflow import control_flow
from asmgen.program.mix import address_instructions
from asmgen.program.program import Instruction, Item, Program

KINDS = ("wait", "count", "barrier", "nop", "swizzle")
_SWIZZLE = "v_xor_b32"
MISSING = frozenset({waits.MISSING, waits.TOKEN, waits.BARRIERS, waits.LDS_AT_BARRIER, waits.LDS_ORDER, LDS_IN_FLIGHT,
                     waits.OUT_OF_PHASE, waits.MEETING, waits.PARTING})
"""The rules of what a weaker program lacks."""
_Key = tuple[str, int, int, int]


@dataclass(frozen=True)
class Mutant:
    """One change: `kind` is a member of KINDS, `change` says it in words, `original` is the instruction that was changed."""

    kind: str
    change: str
    original: Instruction
    program: Program

    def __str__(self) -> str:
        reason = self.original.reason or self.original.comment
        where = self.original.where()
        return f"{self.change}{f' at {where}' if where else ''}{f'  ; {reason}' if reason else ''}"


def mutants(program: Program) -> Iterator[Mutant]:
    """All mutants: of waits, barriers and nops in program order, then those of swizzles."""
    yield from _weakened(program)
    yield from _unswizzled(program)


def _weakened(program: Program) -> Iterator[Mutant]:
    arch = architecture(program.arch)
    for number, item in enumerate(program.items):
        if not isinstance(item, Instruction):
            continue
        operand = item.operands[0] if item.operands else None
        if item.name == "s_barrier":
            yield Mutant("barrier", f"{item.text} deleted", item, _changed(program, number, ()))
        elif item.name == "s_waitcnt" and isinstance(operand, Waitcnt):
            yield Mutant("wait", f"{item.text} deleted", item, _changed(program, number, ()))
            for field, limit in (("vmcnt", arch.vmcnt_max), ("lgkmcnt", arch.lgkmcnt_max)):
                count = getattr(operand, field)
                if count is None:
                    continue
                if (operand.vmcnt is None) + (operand.lgkmcnt is None) == 0:
                    weaker = replace(operand, **{field: None})
                    yield Mutant("count", f"{field}({count}) of {item.text} "
                                          f"deleted", item, _changed(program, number, (_wait(item, weaker),)))
                if count + 1 < limit:
                    weaker = replace(operand, **{field: count + 1})
                    yield Mutant("count", f"{item.text} with {field}({count + 1})", item, _changed(program, number, (_wait(item, weaker),)))
        elif item.name == "s_nop" and isinstance(operand, int):
            yield Mutant("nop", f"{item.text} deleted", item, _changed(program, number, ()))
            if operand:
                fewer = replace(item, operands=(operand - 1,))
                yield Mutant("nop", f"{item.text} made s_nop {operand - 1}", item, _changed(program, number, (fewer,)))


def _unswizzled(program: Program) -> Iterator[Mutant]:
    """Each exclusive or of an address undone in turn, then all of them at once."""
    plain: dict[int, Instruction] = {}
    addresses = {id(program.instructions[position]) for position in address_instructions(program, control_flow(program))}
    for number, item in enumerate(program.items):
        if isinstance(item, Instruction) and item.name == _SWIZZLE and id(item) in addresses:
            copied = _copied(item, program.arch)
            plain[number] = copied
            yield Mutant("swizzle", f"{item.text} made {copied.text}", item, _changed(program, number, (copied,)))
    if len(plain) > 1:
        items = tuple(plain.get(number, item) for number, item in enumerate(program.items))
        first = program.items[min(plain)]
        assert isinstance(first, Instruction)
        yield Mutant("swizzle", f"all {len(plain)} {_SWIZZLE} of addresses undone", first, program.with_items(items))


def _copied(item: Instruction, arch: str) -> Instruction:
    """The instruction as a copy of its first source that is a register."""
    target, *sources = item.operands
    operands = (target, next((source for source in sources if isinstance(source, Reg)), sources[0]))
    move = opcode("v_mov_b32")
    return replace(item, opcode=move, form=resolve(move, operands, {}, arch), operands=operands, modifiers={})


def _wait(item: Instruction, operand: Waitcnt) -> Instruction:
    return replace(item, operands=(operand,))


def _changed(program: Program, number: int, instead: tuple[Item, ...]) -> Program:
    return program.with_items(program.items[:number] + instead + program.items[number + 1:])


class Judge:
    """What verification says of the unchanged program, so that only what a mutant adds counts."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._brief, self._whole = (waits.Verifier(program, notes) for notes in (False, True))
        self._waits = _keys(self._whole.findings())
        self._states = _state_findings(program)
        self._locations = {id(instruction): position for position, instruction in enumerate(program.instructions)}
        self._numbers = {id(item): number for number, item in enumerate(program.items)}
        self._nothing = Instruction(opcode("s_nop"), resolve(opcode("s_nop"), (0,), {}, program.arch), (0,))

    def notices(self, mutant: Mutant) -> bool:
        """Whether verification misses a wait, a barrier or a wait state in the mutant that the program does not lack.

        It never notices a swizzle: which banks are hit shows when addresses are computed.
        """
        if mutant.kind == "swizzle":
            return False
        if mutant.kind != "nop" and self._misses(mutant, self._brief):
            return True  # most waits are missed here, and this is the quickest to ask
        if _state_findings(mutant.program) - self._states:
            return True
        return mutant.kind != "nop" and (self._misses(mutant, self._whole) or bool(_keys(waits.verify(mutant.program)) - self._waits))

    def _misses(self, mutant: Mutant, verifier: waits.Verifier) -> bool:
        """Whether it finds what is missing, as far as that shows near the changed place."""
        position = self._locations.get(id(mutant.original))
        if position is None or mutant.kind == "barrier" and self._program.roles:
            return False
        program = mutant.program
        if len(program) < len(self._program):  # positions of a program without the instruction would be others
            program = _changed(self._program, self._numbers[id(mutant.original)], (self._nothing,))
        return bool(_keys(verifier.weakened(program, position)) - self._waits)


def _keys(findings: Iterable[LintFinding]) -> set[_Key]:
    return {(finding.rule, id(finding.producer), id(finding.consumer), finding.rounds) for finding in findings if finding.rule in MISSING}


def _state_findings(program: Program) -> set[_Key]:
    return {(finding.rule, id(finding.producer), id(finding.consumer), 0) for finding in hazards.verify(program)}
