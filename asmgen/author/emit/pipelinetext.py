"""What is left to do for pipelines once a kernel's text is complete: cold blocks to share, and registers that they leave undefined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from asmgen.author.emit.coldblocks import Sharing, cold_branches
from asmgen.author.step.effects import Tag, effects_of
from asmgen.author.step.iterations import PipelineError
from asmgen.isa.records import dataclass
from asmgen.isa.registers import mask_names, scc
from asmgen.program.live import program_liveness
from asmgen.program.program import Instruction, Item, Label, Program, TokenUse
from asmgen.regalloc.liveness import Liveness
from asmgen.regalloc.ranges import OwnedReg

_AHEAD = "writes it for iterations ahead: what a loop leaves there belongs to no iteration. Copy it in the step, into a register that " \
    "only iteration t writes"


@dataclass(frozen=True)
class PipelineText:
    """A pipeline in a builder's items: those that may share cold blocks, and the label at its end. At label `filling`, if any, fills of LDS
    by DMA may be in flight that bring nothing.

    `lost` are registers (as bits) that counts leave with values of no iteration, `spent` those that counted; ranges of the plan from number
    `leases` on were taken later. `sums` are registers to which only matrix instructions of the step add and which nothing in the step
    reads; `summed` is one of these instructions.
    """

    sharing: Sharing | None
    end: str
    filling: str = ""
    lost: int = 0
    spent: int = 0
    leases: int = 0
    sums: int = 0
    summed: Instruction | None = None


class Written(Protocol):
    """The part of a builder that `settle_pipelines` needs."""

    items: list[Item]
    pipelines: list[PipelineText]

    @property
    def tags(self) -> Sequence[Tag]:
        """The tags of the items."""

    def program(self) -> Program:
        """The program built so far."""

    def wait_at(self, label: str) -> None:
        """Put a wait for all loads after a label."""


def settle_pipelines(k: Written) -> list[Sharing]:
    """What may be shared. A block is not where a later instruction still reads the SCC from before it. Code after a pipeline that uses LDS
    waits for fills in flight.

    Raises PipelineError, at the author's line, for code after a pipeline that reads a register which the pipeline leaves undefined, and for
    sums of a pipeline that nothing reads.
    """
    for text in k.pipelines:
        if text.filling and _uses_lds(k, text.filling):
            k.wait_at(text.filling)
    program = k.program()
    live = program_liveness(program)
    number = 0  # of the next instruction
    at: list[int] = []
    for item in k.items:
        at.append(number)
        number += isinstance(item, Instruction)
    labels = {item.name: at[position] for position, item in enumerate(k.items) if isinstance(item, Label)}
    for text in k.pipelines:
        _refuse_lost(k, text, live, labels)
        _refuse_forgotten(text, live, labels)
    _refuse_one_sided(program.instructions)
    branches = cold_branches(k.items, k.tags)
    targets = {position: item.target for position in branches if isinstance(item := k.items[position], Instruction)}
    apart = frozenset(position for position, target in targets.items()
                      if target is not None and labels[target] < len(live) and live.live_before(labels[target]) & scc.mask)
    return [Sharing(one.first, one.last, one.room, apart) for text in k.pipelines if (one := text.sharing) is not None]


def _uses_lds(k: Written, label: str) -> bool:
    """Whether an instruction after a label accesses LDS."""
    begin = next(position for position, item in enumerate(k.items) if isinstance(item, Label) and item.name == label)
    return any(access.space == "lds" for item in k.items[begin:] if isinstance(item, Instruction) for access in effects_of(item).memory)


def _refuse_lost(k: Written, text: PipelineText, live: Liveness, labels: dict[str, int]) -> None:
    first = labels[text.end]
    held = live.live_before(first) if first < len(live) else 0
    for registers, why in ((text.lost, _AHEAD), (text.spent, "counts with it and uses it up; copy it before the pipeline")):
        wrong = held & registers
        reader = next((one for one in k.program().instructions[first:] if _reads_old(one, wrong, text.leases)), None) if wrong else None
        if reader is not None:
            names = ", ".join(mask_names(reader.reads & wrong))
            raise PipelineError(f"{reader.text} reads {names} after the pipeline, which {why}", reader.where())


def _reads_old(instruction: Instruction, registers: int, leases: int) -> bool:
    """Whether an instruction reads any of the registers under a name that they had before the lease of that number."""
    later = 0
    for operand in instruction.operands:
        if isinstance(operand, OwnedReg) and operand.lease >= leases:
            later |= operand.mask
    return bool(instruction.reads & registers & ~later)


def _refuse_one_sided(instructions: Sequence[Instruction]) -> None:
    """Refuse fills of LDS that nothing reads, and reads of what nothing fills."""
    uses: dict[str, dict[TokenUse, Instruction]] = {"write": {}, "read": {}}
    unnamed = {access.write for one in instructions if not one.tokens for access in effects_of(one).memory if access.space == "lds"}
    for one in instructions:
        for use in one.tokens:
            uses[use.action].setdefault(use, one)
    for action, other, wrong in (("write", "read", "which nothing reads: leave the fill out, or read it"),
                                 ("read", "write", "which nothing fills: fill or write it, for an earlier stage of the step")):
        for use, one in uses[action].items() if (other == "write") not in unnamed else ():
            if not any(use.low < another.high and another.low < use.high for another in uses[other]):
                verb = "fills" if action == "write" else "reads"
                raise PipelineError(f"{one.text} {verb} {use.name}, {wrong}", one.where())


def _refuse_forgotten(text: PipelineText, live: Liveness, labels: dict[str, int]) -> None:
    first = labels[text.end]
    if text.summed is not None and live.live_before(0) & text.sums:
        names = ", ".join(mask_names(live.live_before(0) & text.sums)[:4])
        raise PipelineError(f"{text.summed.text} adds to {names}, which nothing has written before the pipeline: zero(k, ...) the tile, or "
                            "mma(..., first=True)", text.summed.where())
    if text.summed is not None and not (live.live_before(first) & text.sums if first < len(live) else 0):
        names = ", ".join(mask_names(text.sums)[:4])
        raise PipelineError(f"{text.summed.text} adds to {names}, which nothing reads after the pipeline: the epilogue is missing. Give it "
                            "to the pipeline as then=", text.summed.where())
