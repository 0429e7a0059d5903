"""The builder: ISA mnemonics as methods, checked when called, at the author's Python line.

    k = Builder("copy", "gfx950", plan)
    k.global_load_dword(x, address, OFF)
    k.v_add_f32(y, 1.0, x)

Operands stand in assembly order, modifiers are keywords (`offset=16, offen=True`). `fills=` and `uses=` name LDS ranges
whose arrival registers cannot show (tokens, design.md section 2). Nothing is inserted or moved here: passes do that, when called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from asmgen.isa.arch import architecture
from asmgen.isa.check import resolve
from asmgen.isa.errors import AsmgenError, OperandError
from asmgen.isa.operands import Modified, Operand, Symbol, Waitcnt
from asmgen.isa.registers import Reg
from asmgen.isa.table import canonical, opcode
from asmgen.ldsmap import LdsRange
from asmgen.program import Align, Instruction, Item, Label, Program, Region, SourceLine
from asmgen.regalloc.plan import RegisterPlan
from asmgen.regalloc.ranges import author_frame

if TYPE_CHECKING:
    from asmgen.explain import Explanation

WAIT_MODES = ("auto", "verify", "off")


class Builder:
    """Appends instructions and labels for one kernel, in order."""

    def __init__(self, name: str, arch: str, plan: RegisterPlan | None = None, stagger: int = 0) -> None:
        architecture(arch)
        self.name = name
        self.arch = arch
        self.plan = plan
        self.stagger = stagger
        self.items: list[Item] = []
        self.regions: list[tuple[str, int]] = []
        self._labels: dict[str, SourceLine | None] = {}
        self.position = 0
        self.entry = ""
        self._waits = ""

    def __getattr__(self, name: str) -> Callable[..., Instruction]:
        if not name.startswith(("v_", "s_", "ds_", "buffer_", "tbuffer_", "global_", "flat_", "scratch_")):
            raise AttributeError(f"Builder has no attribute {name!r}, and no instruction begins like that")

        def emit(*operands: Operand | str, **modifiers: Any) -> Instruction:
            return self.emit(name, *operands, **modifiers)

        return emit

    def emit(self, name: str, *operands: Operand | str, fills: LdsRange | None = None, uses: LdsRange | None = None,
             comment: str = "", **modifiers: Any) -> Instruction:
        """Append the instruction of that mnemonic (an `_e32`, `_e64`, `_dpp` or `_sdwa` suffix forces the encoding).

        A string operand is a label. Raises OperandError, at the caller's line, for whatever the assembler would refuse
        or silently miscode, and PlanError for a register that nobody holds.
        """
        instruction = self._instruction(name, operands, modifiers, fills, uses, comment)
        self.items.append(instruction)
        self.position += 1
        return instruction

    def peek(self, name: str, *operands: Operand | str, fills: LdsRange | None = None, uses: LdsRange | None = None,
             **modifiers: Any) -> Explanation:
        """What `emit` of the same would mean here, without doing it: what is in flight, the waits and wait states that it would need
        in front of it, whether a full counter would stall it. Raises as `emit` does.

        It solves the program so far: what a back-edge that is not placed yet will bring is not known."""
        from asmgen.explain import peek

        instruction = self._instruction(name, operands, modifiers, fills, uses, "")
        offset = self.plan.resources().accum_offset if self.plan is not None else None
        program = Program(self.name, self.arch, (*self.items, instruction), self.stagger, offset, "")
        return peek(program, self._owner)

    def _owner(self, reg: Reg) -> str:
        """The names under which the plan holds a register here."""
        if self.plan is None:
            return ""
        held = [span for span in self.plan.spans(self.position + 1) if span.first <= self.position <= span.last]
        here = [span.name for span in held if span.reg.overlaps(reg)]
        return " / ".join(dict.fromkeys(here))

    def _instruction(self, name: str, operands: tuple[Operand | str, ...], modifiers: dict[str, Any], fills: LdsRange | None,
                     uses: LdsRange | None, comment: str) -> Instruction:
        source = author_line()
        try:
            canonical_name, suffix = canonical(name)
            row = opcode(canonical_name)
            if canonical_name == "s_waitcnt" and not operands:
                operands, modifiers = (Waitcnt(**modifiers),), {}
            typed = tuple(_plain(operand) for operand in operands)
            chosen = {key: value for key, value in modifiers.items() if value is not False and value is not None}
            form = resolve(row, typed, chosen, self.arch, suffix)
            self._check_leases(operands, str(source))
        except OperandError as error:
            raise OperandError(error.sentence, str(source)) from None
        except TypeError as error:
            raise OperandError(f"{name}: {error}", str(source)) from None
        tokens = tuple(use for use in (fills.written() if fills else None, uses.read() if uses else None) if use is not None)
        return Instruction(row, form, typed, chosen, suffix, source, "", comment, tokens, waits=self._waits)

    def label(self, name: str) -> None:
        """Place a label. Raises AsmgenError where it stands already."""
        source = author_line()
        if name in self._labels:
            raise AsmgenError(f"label {name!r} is placed twice, first at {self._labels[name]}", str(source))
        self._labels[name] = source
        self.items.append(Label(name, source))

    def region(self, name: str) -> None:
        """Begin a named part of the kernel: a column of the register map."""
        self.regions.append((name, self.position))
        self.items.append(Region(name))

    def align(self, size: int) -> None:
        """Pad with s_nop up to a multiple of `size` bytes from the kernel's start."""
        self.items.append(Align(size))

    @contextmanager
    def waits(self, mode: str) -> Iterator[None]:
        """Another mode of wait counters for the instructions of a `with` block: "auto" inserts what they need, "verify" checks that the
        author's own waits serve them, "off" leaves them alone. What they issue is in the ledger of all that follows in any case."""
        if mode not in WAIT_MODES:
            raise AsmgenError(f"waits({mode!r}) is no mode; there are {', '.join(WAIT_MODES)}", str(author_line()))
        before, self._waits = self._waits, mode
        try:
            yield
        finally:
            self._waits = before

    @contextmanager
    def scratch(self, name: str, count: int = 1, file: str = "v") -> Iterator[Reg]:
        """Registers of the pool for the length of a `with` block."""
        if self.plan is None:
            raise AsmgenError(f"scratch registers {name!r} were asked for, but this builder has no register plan", str(author_line()))
        take = {"v": self.plan.vgprs, "a": self.plan.agprs, "s": self.plan.sgprs}[file]
        register = take(count, name)
        yield register
        self.plan.release(register)

    def program(self) -> Program:
        """What was built so far, checked for branches to labels that do not exist. Raises AsmgenError for such a branch."""
        for item in self.items:
            if isinstance(item, Instruction) and item.target is not None and item.target not in self._labels:
                known = ", ".join(self._labels) or "none"
                raise AsmgenError(f"{item} branches to a label that is not placed; placed are: {known}", item.where())
        offset = self.plan.resources().accum_offset if self.plan is not None else None
        return Program(self.name, self.arch, tuple(self.items), self.stagger, offset, self.entry)

    def _check_leases(self, operands: tuple[Operand | str, ...], where: str) -> None:
        if self.plan is None:
            return
        for operand in operands:
            value = operand.value if isinstance(operand, Modified) else operand
            if isinstance(value, Reg):
                self.plan.check(value, where)


def _plain(operand: Operand | str) -> Operand:
    """An operand as a Program holds it: labels as symbols, registers without their lease."""
    if isinstance(operand, str):
        return Symbol(operand)
    if isinstance(operand, Reg):
        return Reg(operand.file, operand.index, operand.count)
    if isinstance(operand, Modified) and isinstance(operand.value, Reg):
        return replace(operand, value=Reg(operand.value.file, operand.value.index, operand.value.count))
    return operand


def author_line() -> SourceLine | None:
    """The nearest line up the stack that is not asmgen's own machinery: a kernel file's or a user's."""
    place = author_frame()
    return SourceLine(*place) if place is not None else None
