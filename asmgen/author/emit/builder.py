"""The builder: ISA mnemonics are methods. Each call is checked at the author's Python line.

    k = Builder("copy", "gfx950", plan)
    k.global_load_dword(x, address, OFF)
    k.v_add_f32(y, 1.0, x)

Operands stand in assembly order; modifiers are keywords (`offset=16, offen=True`). `fills=` and `uses=` name LDS ranges whose arrival no
register shows (tokens, docs/ARCHITECTURE.md). The builder inserts and moves nothing; passes do that when they are called.

A kernel may have several streams, merged section by section:

    memory, matrix = k.streams("memory", "matrix")
    with k.section() as section:
        with memory:
            k.ds_read_b128(...)
        with matrix:
            k.v_mfma_f32_16x16x32_bf16(...)
    section.merge_streams(["matrix", "memory"])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from asmgen.author.emit.authorlines import author_line, source_line, where
from asmgen.author.emit.coldblocks import check_block, check_cold_block, move_cold_blocks
from asmgen.author.emit.erratacheck import CONCERNED, check_errata
from asmgen.author.emit.ldsmap import LdsRange
from asmgen.author.emit.pipelinetext import PipelineText, settle_pipelines
from asmgen.author.emit.sections import Section, Stream
from asmgen.author.emit.temporaries import Temporaries
from asmgen.author.step.effects import Tag, Unit
from asmgen.author.step.iterations import Copy, PipelineError, StepIndex, operation, within
from asmgen.author.step.loopsources import LoopSources
from asmgen.author.step.phases import in_phase, period_of
from asmgen.isa.arch import architecture
from asmgen.isa.check import resolve
from asmgen.isa.errors import AsmgenError, OperandError
from asmgen.isa.operands import Operand, Symbol, Waitcnt
from asmgen.isa.registers import Modified, Reg
from asmgen.isa.table import canonical, opcode
from asmgen.program.program import Align, Instruction, Item, Label, Program, Region, SourceLine, TokenUse
from asmgen.regalloc.plan import RegisterPlan
from asmgen.regalloc.ranges import OwnedReg, author_frames, home_file

if TYPE_CHECKING:
    from asmgen.author.emit.lookahead import Lookahead
    from asmgen.checks.explain.explain import Explanation

WAIT_MODES = ("auto", "verify", "off")
ENTERS = "so that the loop's waits find in flight what they count on"
"""The comment of the wait before a loop, whose counts let stores of earlier rounds be in flight beside fills. Its count is the loosest one
with which those are enough."""
MEETS = "after all reads of what is filled next"
"""The comment of a barrier that goes where it orders nothing."""
Made = TypeVar("Made")


class Builder(LoopSources):
    """Appends instructions and labels for one kernel, in order."""

    def __init__(self, name: str, arch: str, plan: RegisterPlan | None = None, stagger: int = 0) -> None:
        architecture(arch)
        self.name = name
        self.arch = arch
        self.registers = plan
        self.stagger = stagger
        self.roles: tuple[str, ...] = ()
        self.items: list[Item] = []
        self.regions: list[tuple[str, int]] = []
        self.remarks: list[str] = []  # lines for the head of the assembly text
        self._labels: dict[str, SourceLine | None] = {}
        self.position = 0
        self.entry = ""
        self.home = home_file()
        self._waits = ""
        self._stream = ""
        self._open_block = ""
        self._cold = False  # whether the open block is cold
        self._block_count = 0
        self._operations: tuple[str, ...] = ()
        self.shown: dict[int, str] = {}  # by lease of a descriptor: the argument whose memory it shows
        self._tags: list[Tag] = []  # of each item
        self._section: Section | None = None
        self._lookahead: Lookahead | None = None  # for peek
        self.copy: Copy | None = None
        self.pipelines: list[PipelineText] = []
        self.tiles: dict[str, object] = {}  # register and shared tiles by name
        self.to_spread: list[Instruction] = []  # loads that stand among the code up to the next pipeline (asmgen.author.loop.spreading)
        self.steps: list[Any] = []  # the table of each pipeline's step (asmgen.author.loop.steptable)
        self.paths: list[Any] = []  # the copies of each pipeline's step and the ways through them (asmgen.author.loop.pathgraph)
        self.counted: dict[tuple[int, str], Reg] = {}  # SGPRs of iteration numbers, by iteration ahead and condition
        self.stage_number = 0
        self.ordinal = 0
        self._fresh = 0
        self.recording = False
        self.step_start = 0
        self._temporaries: dict[tuple[str, str], Temporaries] = {}

    def __getattr__(self, name: str) -> Callable[..., Instruction]:
        if not name.startswith(("v_", "s_", "ds_", "buffer_", "tbuffer_", "global_", "flat_", "scratch_")):
            raise AttributeError(f"Builder has no attribute {name!r}, and no instruction begins like that")

        emit = self.__dict__[name] = partial(self.emit, name)  # cached, as kernels use few mnemonics thousands of times
        return emit

    def emit(self, name: str, *operands: Operand | str, fills: LdsRange | None = None, uses: LdsRange | None = None,
             comment: str = "", despite: str = "", **modifiers: Any) -> Instruction:
        """Append the instruction of that mnemonic (an `_e32`, `_e64`, `_dpp` or `_sdwa` suffix forces the encoding).

        A string operand is a label. Raises OperandError, at the caller's line, for what the assembler would refuse or silently miscode, and
        for a form that an erratum hits, unless `despite` names the erratum (isa/errata.py). Raises PlanError for a register that no name
        holds.
        """
        if (count := period_of((*operands, *modifiers.values(), fills, uses))) > 1:
            def made(phase: int) -> Instruction:
                held = {key: in_phase(value, phase) for key, value in modifiers.items()}
                return self._instruction(name, tuple([in_phase(operand, phase) for operand in operands]), held, in_phase(fills, phase),
                                         in_phase(uses, phase), comment, despite)

            instruction = made(0)
            if self.copy is not None:
                self.copy.tables[self.ordinal] = (instruction, *map(made, range(1, count)))
        else:
            instruction = self._instruction(name, operands, modifiers, fills, uses, comment, despite)
        self._append(instruction)
        return instruction

    def _append(self, item: Item) -> None:
        self.items.append(item)
        condition, phase = (self.copy.condition, self.copy.phase) if self.copy is not None else ("", 0)
        self._tags.append(Tag(self._stream, self._open_block, self.stage_number, self.ordinal, condition, self._cold, phase))
        self.position += isinstance(item, Instruction)
        self.ordinal += 1

    def peek(self, name: str, *operands: Operand | str, fills: LdsRange | None = None, uses: LdsRange | None = None,
             **modifiers: Any) -> Explanation:
        """What `emit` of the same instruction would mean here: what is in flight, the waits and wait states that the instruction would
        need before it, and whether a full counter would stall it. Emits nothing. Raises as `emit` does.

        The time grows with the number of operations in flight. What a back-edge brings that is not placed yet is unknown; `path` says so.
        """
        from asmgen.author.emit.lookahead import Lookahead
        from asmgen.checks.explain.explain import foresee

        instruction = self._instruction(name, tuple([in_phase(operand, 0) for operand in operands]),
                                        {key: in_phase(value, 0) for key, value in modifiers.items()}, in_phase(fills, 0),
                                        in_phase(uses, 0), "")
        if self._lookahead is None:
            self._lookahead = Lookahead(self.arch, self.stagger)
        frontier = self._lookahead.frontier_after(self.items, self._section.start if self._section is not None else 0)
        return foresee(frontier, instruction, self.name, self._owners())

    def _moved(self, start: int) -> None:
        """Items from number `start` on are about to be moved or removed."""
        if self._lookahead is not None:
            self._lookahead.forget(start)

    def rearranged(self, begin: int, items: Sequence[tuple[Item, Tag]]) -> None:
        """These stand in the place of all items from number `begin` on: the same ones in another order."""
        self._moved(begin)
        self.items[begin:], self._tags[begin:] = [item for item, _ in items], [tag for _, tag in items]

    def _owners(self) -> Callable[[Reg], str]:
        """A function from a register to the names under which the plan holds it now."""
        held = self.registers.live() if self.registers is not None else []
        return lambda reg: " / ".join(dict.fromkeys([owner.name for owner in held if owner.reg.overlaps(reg)]))

    def _instruction(self, name: str, operands: tuple[Operand | str, ...], modifiers: dict[str, Any], fills: LdsRange | None,
                     uses: LdsRange | None, comment: str, despite: str = "") -> Instruction:
        source, helper = self._lines()
        try:
            canonical_name, suffix = canonical(name)
            row = opcode(canonical_name)
            if canonical_name == "s_waitcnt" and not operands:
                operands, modifiers = (Waitcnt(**modifiers),), {}
            typed = tuple([_plain(operand) for operand in operands])
            chosen = {key: value for key, value in modifiers.items() if value is not False and value is not None}
            form = resolve(row, typed, chosen, self.arch, suffix)
            if despite or canonical_name in CONCERNED:
                comment = check_errata(self.arch, canonical_name, typed, chosen, despite, comment)
            self._check_leases(operands, source, helper)
        except OperandError as error:
            raise OperandError(error.sentence, where(source, helper)) from None
        except TypeError as error:
            raise OperandError(f"{name}: {error}", where(source, helper)) from None
        tokens = (*((fills.written(),) if fills else ()), *((uses.read(),) if uses else ()))
        return Instruction(row, form, typed, chosen, suffix, source, "", comment, tokens, waits=self._waits, helper=helper,
                           operations=self._operations, argument=self._shown_by(operands) if row.memory is not None else "")

    def _shown_by(self, operands: Sequence[object]) -> str:
        """The argument whose memory a descriptor among the operands shows, "" without one."""
        return next((name for operand in operands if isinstance(operand, OwnedReg) and (name := self.shown.get(operand.lease))), "")

    def _lines(self) -> tuple[SourceLine | None, SourceLine | None]:
        author, helper = author_frames(self.home)
        return source_line(*author) if author else None, source_line(*helper) if helper else None

    def streams(self, *names: str) -> tuple[Stream, ...]:
        """Streams of those names; `with stream:` emits into one. Raises AsmgenError for a name that is given twice."""
        if len(set(names)) != len(names) or not all(names):
            raise AsmgenError(f"each stream needs a name of its own, got {', '.join(map(repr, names))}", str(author_line()))
        return tuple(Stream(self, name) for name in names)

    def section(self) -> Section:
        """`with k.section() as section:` gathers the units emitted within. `section.merge(order)` places them; else emission order
        stays."""
        return Section(self)

    @contextmanager
    def block(self, name: str, cold: bool = False, nested: bool = False) -> Iterator[None]:
        """Instructions emitted within are placed as one: one entry, one exit, branches and labels of its own, no barrier.

        A block inside of another block is an error; with `nested` it becomes a part of that block. A `cold` block rarely runs:
        `place_cold_blocks` moves it after the kernel's end. It begins with a conditional branch to the label that ends it; scalar code
        before that branch stays. Raises AsmgenError for a cold block of another form.
        """
        if self._open_block and nested:
            yield
            return
        if self._open_block:
            raise AsmgenError(f"block {name!r} stands inside of block {self._open_block!r}; blocks do not nest", str(author_line()))
        self._block_count += 1
        self._open_block, self._cold = f"{name}#{self._block_count}", cold
        offset = len(self.items) - self.step_start  # instructions hoisted out of the block stand before step_start
        try:
            yield
        finally:
            self._open_block, self._cold = "", False
        inside = self.items[self.step_start + offset:]
        check_block(name, inside)
        if cold:
            check_cold_block(name, inside)

    def place_cold_blocks(self) -> None:
        """Move cold blocks after the kernel's end, once all is placed. Raises AsmgenError if the kernel does not end with s_endpgm."""
        self._moved(0)
        shared = settle_pipelines(self) if self.pipelines else ()
        self.items, self._tags = move_cold_blocks(self.items, self._tags, self.fresh, self.arch, shared)
        self._labels = {item.name: item.source for item in self.items if isinstance(item, Label)}

    @contextmanager
    def stage(self, name: str = "") -> Iterator[None]:
        """A stage of a pipelined step: operations emitted within belong to it. Raises PipelineError outside of a step."""
        if self.copy is None:
            raise PipelineError("a stage stands outside of a pipeline's step", self.here())
        self.stage_number += 1
        self.copy.stages[self.stage_number] = name
        yield

    @contextmanager
    def at(self, index: StepIndex) -> Iterator[None]:
        """Instructions and operations on tiles emitted within belong to that iteration of a pipelined step."""
        with within(self, index):
            yield

    def iteration_number(self, index: StepIndex) -> Reg:
        """An SGPR that counts the iterations of the operations that ask, made before the pipeline; see `StepIndex.number`."""
        copy = index.copy
        if self.registers is None:
            raise AsmgenError("the number of an iteration takes an SGPR, and this builder has no register plan", self.here())
        key = index.offset, copy.condition
        plan, known = self.registers, self.counted.get(key)
        if known is None:
            def make() -> Reg:
                register = plan.sgprs(1, plan.unused("iteration"), note=f"number of iteration {index}")
                self.s_mov_b32(register, 0 if copy.condition == "later" else -1)
                return register

            known = self.counted[key] = self.hoist(make)
        if key not in copy.counted:
            copy.counted.add(key)
            with operation(self, "count", at=index):
                self.s_add_u32(known, known, 1)
        return known

    def hoist(self, emit: Callable[[], Made]) -> Made:
        """Call `emit` and place its code before the pipeline whose step calls this: for addresses that no iteration changes."""
        if self.copy is None:
            return emit()
        copy, section, tag = self.copy, self._section, (self._stream, self._open_block, self._cold)
        if section is not None and section.start != len(self.items) and not self.recording:
            raise AsmgenError("a step asks for something to be hoisted only after it was recorded", self.here())
        journal = self.registers.journal if self.registers is not None else None
        if self.registers is not None:
            self.registers.journal = None
        self.copy = self._section = None
        self._stream = self._open_block = ""
        self._cold = False
        self._moved(self.step_start)
        held, tags = self.items, self._tags
        ordinal = self.ordinal
        self.items, self._tags = held[:self.step_start], tags[:self.step_start]
        try:
            return emit()
        finally:
            grown = len(self.items) - self.step_start
            self.items, self._tags = self.items + held[self.step_start:], self._tags + tags[self.step_start:]
            self.step_start += grown
            if section is not None:
                section.start += grown
            self.copy, self._section, self.ordinal = copy, section, ordinal
            if self.registers is not None:
                self.registers.journal = journal
            self._stream, self._open_block, self._cold = tag

    def append_unit(self, unit: Unit) -> None:
        """Place a unit that was taken out of the builder before."""
        self.items += unit.items
        if not unit.is_block:
            self._tags.append(unit.tag)
            self.position += 1
            return
        self._tags += [unit.tag] * len(unit.items)
        self._labels.update({item.name: item.source for item in unit.items if isinstance(item, Label)})
        self.position += len(unit.instructions)

    def cut(self, start: int) -> None:
        """Remove all items from number `start` on, labels too."""
        self._moved(start)
        for item in self.items[start:]:
            if isinstance(item, Label):
                del self._labels[item.name]
        self.position -= sum(isinstance(item, Instruction) for item in self.items[start:])
        del self.items[start:], self._tags[start:]

    @property
    def tags(self) -> Sequence[Tag]:
        """The tags of the items."""
        return self._tags

    @property
    def waves_per_simd(self) -> int:
        """The number of waves of a workgroup on one SIMD, as far as the builder knows."""
        return 1

    def wait_slot(self) -> None:
        """A wait slot: the passes give its s_waitcnt the loosest counts for all that is due before the next wait slot."""
        with self.waits("point"):
            self.emit("s_waitcnt")

    def wait_before_loop(self) -> None:
        """A wait before a loop whose waits count operations that are not there yet: for all vector memory but what those waits let land."""
        self.emit("s_waitcnt", Waitcnt(vmcnt=0), comment=ENTERS)

    def barrier_where_needed(self, count: int | None = None) -> None:
        """Barriers that go where verification finds nothing that they order: `count`, or one and with a stagger several. They stand before
        this wave fills bytes of LDS that others read. All waves of a workgroup come to them, or none."""
        for _ in range(1 + self.stagger if count is None else count):
            self.emit("s_barrier", comment=MEETS)

    def wait_at(self, label: str) -> None:
        """Put a wait for all loads after a label."""
        position = 1 + next(number for number, item in enumerate(self.items) if isinstance(item, Label) and item.name == label)
        self._moved(position)
        self.emit("s_waitcnt", Waitcnt(vmcnt=0), comment="so that no fill of the loop is in flight where LDS is used again")
        self.items.insert(position, self.items.pop())
        self._tags.insert(position, self._tags.pop())

    def barrier_of_readers(self, reads: Sequence[TokenUse]) -> None:
        """An s_barrier after which other waves read those bytes of LDS, while the code that follows does not. This wave waits for its
        fills of those bytes in time."""
        self._append(replace(self._instruction("s_barrier", (), {}, None, None, ""), tokens=tuple(reads)))

    def fresh(self, name: str) -> str:
        """A unique label that begins with that name."""
        self._fresh += 1
        return f"{name}_{self._fresh}"

    def here(self) -> str:
        """The author's line, as errors show it."""
        return where(*self._lines())

    @contextmanager
    def operation(self, name: str) -> Iterator[None]:
        """Add that name to the chain of operations of the instructions emitted within."""
        outer = self._operations
        self._operations = (*outer, name)
        try:
            yield
        finally:
            self._operations = outer

    def label(self, name: str) -> None:
        """Place a label. Raises AsmgenError for a label that is placed already."""
        source = author_line()
        if name in self._labels:
            raise AsmgenError(f"label {name!r} is placed twice, first at {self._labels[name]}", str(source))
        self._labels[name] = source
        self._append(Label(name, source))

    def region(self, name: str) -> None:
        """Begin a named region of the kernel: a column of the register map."""
        self.regions.append((name, self.position))
        self._append(Region(name))

    def align(self, size: int) -> None:
        """Pad with s_nop up to a multiple of `size` bytes from the kernel's start."""
        self._append(Align(size))

    @contextmanager
    def waits(self, mode: str) -> Iterator[None]:
        """Set another wait mode for the instructions of a `with` block.

        "auto" inserts the waits that they need, "verify" checks that the author's waits suffice, "off" does neither. Later instructions
        count these operations as in flight in any case.
        """
        if mode not in (*WAIT_MODES, "point"):
            raise AsmgenError(f"waits({mode!r}): there is no such mode; modes are {', '.join(WAIT_MODES)}", str(author_line()))
        before, self._waits = self._waits, mode
        try:
            yield
        finally:
            self._waits = before

    @contextmanager
    def scratch(self, name: str, count: int = 1, file: str = "v") -> Iterator[Reg]:
        """Registers for the length of a `with` block: temporaries that the current stream has reserved, else registers of the pool. A name
        that the plan holds already gets a number appended."""
        if self.registers is None:
            raise AsmgenError(f"scratch registers {name!r} were asked for, but this builder has no register plan", str(author_line()))
        name = self.registers.unused(name)
        reserved = self._temporaries.get((self._stream, file))
        if reserved is not None:
            register = self.registers.view(name, reserved.take(count, name))
        else:
            register = {"v": self.registers.vgprs, "a": self.registers.agprs, "s": self.registers.sgprs}[file](count, name)
        try:
            yield register
        finally:
            if self.registers.holds(register):  # who gave it as spare no longer has it at need
                self.registers.release(register)
            if reserved is not None:
                reserved.give(register)

    def has_scratch(self, count: int, file: str = "v") -> bool:
        """Whether `scratch` finds so many registers now."""
        reserved = self._temporaries.get((self._stream, file))
        if reserved is not None:
            return reserved.has(count)
        return self.registers is not None and self.registers.has(count, file)

    def program(self) -> Program:
        """The program built so far. Raises AsmgenError for a branch to a label that does not exist."""
        for item in self.items:
            if isinstance(item, Instruction) and item.target is not None and item.target not in self._labels:
                known = ", ".join(self._labels) or "none"
                raise AsmgenError(f"{item} branches to a label that is not placed; placed are: {known}", item.where())
        offset = self.registers.resources().accum_offset if self.registers is not None else None
        return Program(self.name, self.arch, tuple(self.items), self.stagger, offset, self.entry, self.roles)

    def _check_leases(self, operands: tuple[Operand | str, ...], source: SourceLine | None, helper: SourceLine | None) -> None:
        if self.registers is None:
            return
        for operand in operands:
            value = operand.value if isinstance(operand, Modified) else operand
            if isinstance(value, Reg) and not self.registers.holds(value):
                self.registers.check(value, where(source, helper))


def _plain(operand: Operand | str) -> Operand:
    """An operand in the form of a Program: a label becomes a symbol."""
    return Symbol(operand) if isinstance(operand, str) else operand
