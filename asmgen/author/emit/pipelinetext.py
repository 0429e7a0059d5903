"""What is left to do for pipelines once a kernel's text is complete: cold blocks to share, and registers that they leave undefined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from asmgen.author.emit.coldblocks import Sharing, cold_branches
from asmgen.author.step.effects import Tag
from asmgen.author.step.iterations import PipelineError
from asmgen.isa.records import dataclass
from asmgen.isa.registers import mask_names, scc
from asmgen.program.live import program_liveness
from asmgen.program.program import Instruction, Item, Label, Program
from asmgen.regalloc.liveness import Liveness


@dataclass(frozen=True)
class PipelineText:
    """A pipeline in a builder's items: those that may share cold blocks, and the label at its end.

    `lost` are registers (as bits) that short counts leave with values of no iteration. `sums` are those to which only matrix instructions
    of the step add and which nothing in the step reads; `summed` is one of these instructions.
    """

    sharing: Sharing | None
    end: str
    lost: int = 0
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


def settle_pipelines(k: Written) -> list[Sharing]:
    """What may be shared. A block is not where a later instruction still reads the SCC from before it.

    Raises PipelineError, at the author's line, for code after a pipeline that reads a register which the pipeline leaves undefined, and for
    sums of a pipeline that nothing reads.
    """
    live = program_liveness(k.program())
    number = 0  # of the next instruction
    at: list[int] = []
    for item in k.items:
        at.append(number)
        number += isinstance(item, Instruction)
    labels = {item.name: at[position] for position, item in enumerate(k.items) if isinstance(item, Label)}
    for text in k.pipelines:
        _refuse_lost(k, text, live, labels)
        _refuse_forgotten(text, live, labels)
    branches = cold_branches(k.items, k.tags)
    targets = {position: item.target for position in branches if isinstance(item := k.items[position], Instruction)}
    apart = frozenset(position for position, target in targets.items()
                      if target is not None and labels[target] < len(live) and live.live_before(labels[target]) & scc.mask)
    return [Sharing(one.first, one.last, one.room, apart) for text in k.pipelines if (one := text.sharing) is not None]


def _refuse_lost(k: Written, text: PipelineText, live: Liveness, labels: dict[str, int]) -> None:
    first = labels[text.end]
    wrong = live.live_before(first) & text.lost if text.lost and first < len(live) else 0
    if wrong:
        program = k.program()
        reader = next((one for one in program.instructions[first:] if one.reads & wrong), program.instructions[first])
        names = ", ".join(mask_names(wrong))
        raise PipelineError(f"{reader.text} reads {names} after the pipeline, which writes it for iterations ahead: what a short loop "
                            "leaves there belongs to no iteration. Copy it in the step, into a register that only iteration t writes",
                            reader.where())


def _refuse_forgotten(text: PipelineText, live: Liveness, labels: dict[str, int]) -> None:
    first = labels[text.end]
    if text.summed is not None and not (live.live_before(first) & text.sums if first < len(live) else 0):
        names = ", ".join(mask_names(text.sums)[:4])
        raise PipelineError(f"{text.summed.text} adds to {names}, which nothing reads after the pipeline: the epilogue is missing. Give it "
                            "to the pipeline as then=", text.summed.where())
