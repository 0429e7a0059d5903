"""The builder of a whole kernel, and the finished kernel: code, register plan, LDS map, arguments and contract."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from asmgen.author.contract.contract import KernelContract, Value
from asmgen.author.emit.authorlines import author_line
from asmgen.author.emit.builder import ENTERS, MEETS, WAIT_MODES, Builder
from asmgen.author.emit.coldblocks import SETTLES
from asmgen.author.emit.ldsmap import LdsMap
from asmgen.checks.leases.leases import check_leases
from asmgen.checks.waits.needless import weakest
from asmgen.checks.waits.waitmodes import apply_waits, refuse_errors
from asmgen.checks.waitstates.passes import insert as insert_wait_states
from asmgen.checks.waitstates.passes import verify as verify_wait_states
from asmgen.codeobject.directives import KernelResources, argument_loads, file_header, file_trailer, kernel_header, kernel_trailer
from asmgen.codeobject.metadata import arguments as argument_table
from asmgen.codeobject.metadata import arguments_end
from asmgen.isa.arch import ARCHITECTURES, PRELOAD_ENTRY
from asmgen.isa.errors import AsmgenError
from asmgen.isa.operands import Waitcnt
from asmgen.isa.records import dataclass
from asmgen.isa.registers import Reg, s, v
from asmgen.program.controlflow import control_flow
from asmgen.program.program import Instruction, Item, Label, Program
from asmgen.program.text import program_text
from asmgen.regalloc.plan import RegisterPlan
from asmgen.regalloc.ranges import OwnedReg
from asmgen.regalloc.report import MapColumn, format_map, format_plan

if TYPE_CHECKING:
    from asmgen.author.contract.variant import Variant

_LOAD = {1: "s_load_dword", 2: "s_load_dwordx2", 4: "s_load_dwordx4", 8: "s_load_dwordx8", 16: "s_load_dwordx16"}
_BRIEF = "brief_arguments"
_KERNARG_POINTER = 2  # SGPRs


@dataclass(frozen=True)
class Kernel:
    """A finished kernel: its code with all waits, its resources, its register plan and its LDS map; and the kernels that are launched
    before and after it, whose code stands in the same files."""

    program: Program
    resources: KernelResources
    contract: KernelContract
    parameters: Mapping[str, Value]
    plan: RegisterPlan
    lds: LdsMap
    regions: tuple[MapColumn, ...]
    tiles: Mapping[str, object] = field(default_factory=dict)  # register and shared tiles by name
    remarks: tuple[str, ...] = ()  # on its loops
    steps: tuple[Any, ...] = ()  # the operations of each pipeline's step (asmgen.author.loop.steptable)
    paths: tuple[Any, ...] = ()  # the copies of each pipeline's step and the ways through them (asmgen.author.loop.pathgraph)
    before: tuple[Kernel, ...] = ()
    after: tuple[Kernel, ...] = ()

    @property
    def launches(self) -> tuple[Kernel, ...]:
        """All kernels that are launched, in order; of most it is this one alone."""
        return (*self.before, self, *self.after)

    def launched_with(self, before: tuple[Kernel, ...], after: tuple[Kernel, ...]) -> Kernel:
        """This kernel with others, as its contract and theirs say once they are built."""
        if not before and not after:
            return self
        contract = replace(self.contract, before=tuple(one.contract for one in before), after=tuple(one.contract for one in after))
        return replace(self, contract=contract, before=before, after=after)

    @property
    def name(self) -> str:
        """The name of its files, without suffix."""
        return self.contract.stem or self.contract.name

    def register_map(self) -> str:
        """The register map: a row for each register range, a column for each region, the owners' names in the cells."""
        return format_map(self.plan.spans(self.regions[-1].last if self.regions else 0), self.regions)

    def text(self) -> str:
        """The whole assembly file, byte for byte as clang gets it."""
        first, *others = self.launches
        return first._heading() + file_header(self.resources) + first._body() + "".join(one._heading() + one._body() for one in others) \
            + file_trailer([one.resources for one in self.launches])

    def _heading(self) -> str:
        lds = ["", "LDS map", *self.lds.table()] if self.lds.ranges else []
        heading = [f"{self.contract.title} ({self.resources.arch})", "", *format_plan(self.plan).splitlines(), *lds,
                   *(["", "Main loop", *(f"  {remark}" for remark in self.remarks)] if self.remarks else [])]
        return "".join(f"; {line}".rstrip() + "\n" for line in heading)

    def _body(self) -> str:
        return kernel_header(self.resources) + program_text(self.program) + kernel_trailer(self.resources)


@dataclass(frozen=True)
class Kept:
    """What was computed once, after so many items of code."""

    value: object
    position: int


def symbol_of(name: str) -> str:
    """A name as an ELF symbol that the assembler accepts: letters, digits and underscores; a `k` stands before a leading digit."""
    symbol = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return f"k{symbol}" if symbol[:1].isdigit() else symbol


class WorkgroupIds(dict[str, Reg]):
    """The SGPRs of the workgroup's numbers by axis."""

    def __missing__(self, axis: str) -> Reg:
        have = ", ".join(self)
        raise AsmgenError(f"the kernel has no workgroup number {axis!r}: its family has axes={''.join(self)!r}, which gives "
                          f"{have or 'none'}", str(author_line()))


class KernelBuilder(Builder):
    """The builder of a whole kernel. It pins the registers that the hardware fills, loads the arguments and builds the code object.

    `waves` is the occupancy that the author wants, in waves per SIMD. With `preload` the hardware loads the arguments before the first
    instruction; a compatibility entry loads them for firmware that does not (docs/facts/instructions.md section 4). `k.p` has the build
    parameters as attributes. Without `verify`, mode "verify" does the same as "off".
    """

    registers: RegisterPlan

    def __init__(self, contract: KernelContract, arch: str, parameters: Mapping[str, Value], waves: int | None = None,
                 preload: bool = False, workgroup_ids: str = "x", stagger: int = 0, code_object_version: int = 6,
                 variant: Variant | None = None, verify: bool = True) -> None:
        plan = RegisterPlan(arch, waves, position=lambda: self.position)
        super().__init__(contract.name, arch, plan, stagger)
        self.contract = contract
        self.parameters = dict(parameters)
        self.p = SimpleNamespace(**self.parameters)
        self._variant = variant
        self._verify = verify
        self.lds = LdsMap(arch)
        self.table = argument_table([(argument.name, argument.type) for argument in contract.arguments])
        self.made: dict[object, object] = {}  # what operations computed once for all that need the same
        self._axes = workgroup_ids
        self._version = code_object_version
        self._dwords = -(-arguments_end(self.table) // 4)
        self._preload = self._preloaded() if preload else 0
        first_id = _KERNARG_POINTER + self._preload
        self.kernarg = plan.pin("kernarg", s[0:1], "where the arguments lie, filled by the hardware")
        self.ids = WorkgroupIds({axis: plan.pin(f"workgroup_{axis}", s[first_id + number:first_id + number], "filled by the hardware")
                                 for number, axis in enumerate(workgroup_ids)})
        # Without preload the arguments stand after the ids, at an SGPR aligned for the widest loads.
        first = _KERNARG_POINTER if preload else -(-(first_id + len(workgroup_ids)) // 4) * 4
        self._arguments: Reg = self.kernarg[0:0]  # not read in a kernel without arguments
        self._held: list[tuple[int, Reg]] = []  # the first dword of arguments, and where those from it on lie
        if self._dwords:
            lasting = self._first_brief()
            count = self._preload or lasting
            self._arguments = self._hold("arguments", s[first:first + count - 1], 0, "the kernel arguments, in order")
            more = -(-(first_id + len(workgroup_ids)) // 4) * 4 if self._preload else first + lasting
            if 0 < self._preload < lasting:
                more = self._hold("more_arguments", s[more:more + lasting - self._preload - 1], self._preload,
                                  "what is not preloaded, in order").last + 1
            at = max(lasting, count)
            if at < self._dwords:
                self._hold(_BRIEF, s[more:more + self._dwords - at - 1], at, "arguments that are read first of all")
        self.work_item = plan.pin("work_item", v[0:0], "x | y << 10 | z << 20, filled by the hardware")
        self._load_arguments()
        self.begun = len(self.items)

    def holds_since(self, position: int, registers: Sequence[Reg], straight: bool = False) -> bool:
        """Whether registers still hold what the first `position` items left in them: they are held, what follows writes none of them, and
        no way leads past what stands before; where `straight`, no way leads back either, so that no code after this one writes them.

        In a pipeline's step that is asked for the code before the loop.
        """
        if not self.passed(position, straight) or not all(self.registers.holds(register) for register in registers):
            return False
        mask = functools.reduce(operator.or_, (register.mask for register in registers), 0)
        return not any(isinstance(item, Instruction) and item.writes & mask for item in self._before_loop()[position:])

    def passed(self, position: int, straight: bool = False) -> bool:
        """Whether each way to this point has passed what stands before that position; where `straight`, none comes back from later code."""
        items = self._before_loop()
        block = "" if self.copy is not None else self._open_block
        if position > len(items) or position and self._tags[position - 1].block not in ("", block):
            return False
        labels = {item.name for item, tag in zip(items[position:], self._tags[position:], strict=False)
                  if isinstance(item, Label) and not tag.block}
        return not labels or not straight and not any(isinstance(item, Instruction) and item.target in labels for item in items[:position])

    def _before_loop(self) -> Sequence[Item]:
        return self.items[:self.step_start] if self.copy is not None else self.items

    @contextmanager
    def apart(self) -> Iterator[None]:
        """What operations compute once for others within is not used after: for code that a branch may skip."""
        before = dict(self.made)
        try:
            yield
        finally:
            self.made = before

    @property
    def variant(self) -> Variant:
        """The variant that this builder writes. Raises AsmgenError for a kernel that belongs to no family."""
        if self._variant is None:
            raise AsmgenError(f"{self.contract.name} belongs to no family, so this builder writes no variant", str(author_line()))
        return self._variant

    def argument(self, name: str) -> Reg:
        """The SGPRs of an argument. Raises AsmgenError for an argument that the contract does not have."""
        for row in self.table:
            if row.name == name:
                begin, held = next(part for part in reversed(self._held) if part[0] <= row.offset // 4)
                first = row.offset // 4 - begin
                return held[first:first + max(1, row.size // 4) - 1]
        raise AsmgenError(f"the kernel has no argument {name!r}; it has {', '.join(row.name for row in self.table)}", str(author_line()))

    def end_brief_arguments(self) -> None:
        """Release the registers of arguments that the contract calls brief."""
        if any(held.name == _BRIEF for held in self.registers.live()):
            self.registers.release(_BRIEF)

    def _first_brief(self) -> int:
        """The first dword of brief arguments, which are the last ones: of all dwords if there are none."""
        brief = {argument.name for argument in self.contract.arguments if argument.brief}
        return min((row.offset // 4 for row in self.table if row.name in brief), default=self._dwords)

    def _hold(self, name: str, reg: Reg, dword: int, note: str) -> Reg:
        """Pin the registers of the arguments from a dword on."""
        held = self.registers.pin(name, reg, note)
        self._held.append((dword, held))
        return held

    def shows(self, descriptor: Reg, pointer: Reg) -> None:
        """A descriptor shows the memory of the argument that a pointer is, if it is one. Arguments share no memory but those that the
        contract names: accesses of others need no order."""
        name = next((row.name for row in self.table if row.size == 8 and (own := self.argument(row.name)) == pointer
                     and getattr(own, "lease", None) == getattr(pointer, "lease", None)), "")
        if name and isinstance(descriptor, OwnedReg):
            sharing = {name}
            for alias in self.contract.aliases:
                sharing |= set(alias.arguments) if sharing & set(alias.arguments) else set()
            self.shown[descriptor.lease] = " ".join(sorted(sharing))

    def _load_arguments(self) -> None:
        """The kernel begins with the loads of its arguments. The wait before their first use covers their arrival."""
        held = self._held
        if self._preload:
            self._load(*held[0])
            self.emit("s_waitcnt", lgkmcnt=0, comment="the compatibility entry does what preloading firmware did")
            self.emit("s_branch", f"{self.symbol}_body")
            self.align(PRELOAD_ENTRY)
            self.label(f"{self.symbol}_body")
            self.entry = f"{self.symbol}_body"
            held = held[1:]
        for part in held:
            self._load(*part)

    def _load(self, dword: int, held: Reg) -> None:
        """The arguments from a dword on."""
        for chunk in argument_loads(held.index, held.count):
            first = chunk.sgpr - held.index
            self.emit(_LOAD[chunk.dwords], held[first:first + chunk.dwords - 1], self.kernarg, 4 * dword + chunk.offset)

    def _preloaded(self) -> int:
        """The number of dwords that the hardware loads: as many whole arguments as fit."""
        most = ARCHITECTURES[self.arch].user_sgprs - _KERNARG_POINTER
        return max(dword for dword in (self._dwords, *(row.offset // 4 for row in self.table)) if dword <= most)

    @property
    def symbol(self) -> str:
        """The name of the kernel's files as an ELF symbol."""
        return symbol_of(self.contract.stem or self.contract.name)

    def finish(self, waits: str = "auto", wait_states: str = "auto") -> Kernel:
        """Run the passes and return the finished kernel.

        "auto" inserts, "verify" checks what the author wrote, "off" does neither; `with` blocks in another mode keep theirs
        (`Builder.waits`). Raises AsmgenError at the author's line for the first error that verification finds. Raises PlanError for the
        first read of a register that may still hold the value of another owner.
        """
        check_leases(self.program(), self.registers.ranges)  # before cold blocks are shared: it does not know which way goes back where
        self.place_cold_blocks()
        program = self.program()
        _refuse_open_end(program)
        for mode, what in ((waits, "waits"), (wait_states, "wait_states")):
            if mode not in WAIT_MODES:
                raise AsmgenError(f"{what} is {mode!r}; {', '.join(WAIT_MODES)} are possible", str(author_line()))
        program = _weakest(apply_waits(program, waits, self._verify))
        if waits == "auto" and self.entry:
            program = _entry_wait_where_needed(program, self._arguments)
        if wait_states == "auto":
            program = insert_wait_states(program)
        elif wait_states == "verify" and self._verify:
            refuse_errors(verify_wait_states(program))
        contract = replace(self.contract, lds_bytes=self.lds.size)
        return Kernel(program, self._resources(), contract, self.parameters, self.registers, self.lds, self._regions(), self.tiles,
                      tuple(self.remarks), tuple(self.steps), tuple(self.paths))

    def let_go(self) -> None:
        """Hold nothing any more that holds this builder: what a kernel was made from is then free as soon as the kernel is, without a
        search for cycles. Nothing is written after that."""
        self.registers.position = functools.partial(int, self.position)
        self.paths = []
        for name in [name for name, value in vars(self).items() if isinstance(value, functools.partial)]:
            delattr(self, name)

    def _regions(self) -> tuple[MapColumn, ...]:
        first = [] if self.regions and not self.regions[0][1] else [("prologue" if self.regions else "kernel", 0)]
        starts = [*first, *self.regions, ("", self.position)]
        return tuple(MapColumn(name, first, max(first, following - 1))
                     for (name, first), (_, following) in pairwise(starts))

    def _resources(self) -> KernelResources:
        used = self.registers.resources()
        x, y, z = self.contract.workgroup
        return KernelResources(
            name=self.symbol, arch=self.arch, vgprs=used.vgprs, agprs=used.agprs, sgprs=used.sgprs, lds_bytes=self.lds.size,
            arguments=self.table, max_flat_workgroup_size=x * y * z, reqd_workgroup_size=(x, y, z),
            workgroup_ids=("x" in self._axes, "y" in self._axes, "z" in self._axes), kernarg_preload=self._preload,
            code_object_version=self._version)


def _refuse_open_end(program: Program) -> None:
    """Refuse a branch past the last instruction. Raises AsmgenError at its line."""
    past = [name for name, position in program.labels.items() if position == len(program.instructions)]
    for item in program.instructions:
        if item.target in past:
            raise AsmgenError(f"`{item.text}` goes to the end of the kernel, where no instruction follows; s_endpgm may stand there",
                              item.where())


def _weakest(program: Program) -> Program:
    """The program without barriers where none is needed, and with those waits as loose as they may be, or without them, that stand at the
    beginning of shared cold blocks, for the code after them on each way, and before loops, for what the loop's own waits count on."""
    removable = [position for position, item in enumerate(program.instructions) if item.comment == MEETS]
    counted = [position for position, item in enumerate(program.instructions) if item.comment in (SETTLES, ENTERS)]
    return weakest(program, removable, counted) if removable or counted else program


def _entry_wait_where_needed(program: Program, arguments: Reg) -> Program:
    """The program without the wait of the compatibility entry, if on each way the body waits for all scalar loads before it uses what that
    entry loads."""
    start = program.labels[program.entry]
    if _used_before_waits(program, start, arguments):
        return program
    last = max(position for position, item in enumerate(program.instructions[:start]) if item.name == "s_waitcnt")
    gone = program.instructions[last]
    return program.with_items([item for item in program.items if item is not gone])


def _used_before_waits(program: Program, start: int, registers: Reg) -> bool:
    """Whether a way from a position on touches registers before it waits for all scalar loads."""
    flow = control_flow(program)
    todo, seen = [flow.block_of[start]], set[int]()
    while todo:
        block = flow.blocks[todo.pop()]
        if block.number in seen:
            continue
        seen.add(block.number)
        for item in program.instructions[max(start, block.first):block.last + 1]:
            operand = item.operands[0] if item.name == "s_waitcnt" else None
            if isinstance(operand, Waitcnt) and operand.lgkmcnt == 0:
                break
            if (item.reads | item.writes) & registers.mask:
                return True
        else:
            if block.last in flow.indirect:
                return True
            todo += block.successors
    return False
