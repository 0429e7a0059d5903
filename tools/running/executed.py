"""What share of a kernel's instructions launches have executed, and which ones they have not.

Only instructions that some path reaches count: padding after the end does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from asmgen.checks.counters.ledger import RETURNS
from asmgen.program.controlflow import ControlFlow, control_flow
from asmgen.program.knowncalls import CALLS
from asmgen.program.program import Instruction, Program

if TYPE_CHECKING:
    from asmgen.emulator.scheduling.run import LaunchResult


@dataclass(frozen=True)
class Executed:
    """`instructions` were executed by some wave, `of` can be; `missing` holds the positions of the others, in order."""

    instructions: int
    of: int
    missing: tuple[int, ...]

    @property
    def share(self) -> float:
        """0 to 1; 1 where nothing can be executed."""
        return self.instructions / self.of if self.of else 1.0

    def as_json(self) -> dict[str, Any]:
        """JSON values."""
        return {"instructions": self.instructions, "of": self.of, "share": self.share}

    def __str__(self) -> str:
        percent = 100.0 * self.share
        shown = f"{percent:.1f}" if percent < 99.95 or not self.missing else "99.9"  # what is not all never reads as all
        return f"{self.instructions} of {self.of} instructions ({shown} %)"


def executed(program: Program, counts: Iterable[Sequence[int]]) -> Executed:
    """Of what can be reached, what launches executed together; `counts` has the executions by position of each."""
    instructions, flow = program.instructions, control_flow(program)
    blocks = flow.reachable(program, any(instruction.name in CALLS or instruction.name in RETURNS for instruction in instructions))
    able = [position for number in sorted(blocks) for position in range(flow.blocks[number].first, flow.blocks[number].last + 1)]
    done = {position for row in counts for position, count in enumerate(row) if count}
    missing = tuple(position for position in able if position not in done)
    return Executed(len(able) - len(missing), len(able), missing)


def rounds(program: Program, counts: Sequence[int]) -> tuple[bool, ...]:
    """Of each loop, by back edge, whether a launch shows that it went round: its begin ran more often than what leads into the loop from
    outside, by whichever way, or its end more often than what follows beside."""
    flow = control_flow(program)
    starts = {flow.block_of[0], flow.block_of[program.labels[program.entry]] if program.entry else 0}

    def ran(number: int) -> int:
        return counts[flow.blocks[number].last]

    found = []
    for loop in flow.loops():
        head, latch = flow.block_of[loop.first], flow.block_of[loop.last]
        inside = _from(flow, head, loop.blocks)  # without the way into its middle
        outside = {before for number in inside for before in flow.blocks[number].predecessors if before not in inside}
        beside = [number for number in flow.blocks[latch].successors if number != head]
        found.append(not starts & inside and ran(head) > sum(map(ran, outside)) or ran(latch) > sum(map(ran, beside)))
    return tuple(found)


def _from(flow: ControlFlow, head: int, blocks: frozenset[int]) -> set[int]:
    """Those of the blocks to which code comes from one of them through others of them."""
    found, stack = {head}, [head]
    while stack:
        for following in flow.following(stack.pop()):
            if following in blocks and following not in found:
                found.add(following)
                stack.append(following)
    return found


def never_round(program: Program, counts: Iterable[Sequence[int]]) -> list[int]:
    """The positions of back edges that none of the launches shows to be taken."""
    loops = control_flow(program).loops()
    taken = [any(by_launch) for by_launch in zip(*(rounds(program, row) for row in counts), strict=True)] or [False] * len(loops)
    return [loop.last for loop, went in zip(loops, taken, strict=True) if not went]


def together(parts: Iterable[Executed]) -> Executed:
    """Of several kernels as one; the positions in `missing` are those of each."""
    found = list(parts)
    return Executed(sum(one.instructions for one in found), sum(one.of for one in found),
                    tuple(position for one in found for position in one.missing))


@dataclass(frozen=True)
class KernelRun:
    """What one of the kernels did on the emulator."""

    kernel: str
    result: LaunchResult

    def as_json(self) -> dict[str, Any]:
        """JSON values."""
        return {"kernel": self.kernel, "wave_instructions": self.result.wave_instructions,
                "lds_bank_conflicts": sum(self.result.bank_conflicts.values()),
                "executed": executed(self.result.program, [self.result.counts]).as_json()}


def stretches(program: Program, positions: Sequence[int]) -> list[str]:
    """Neighbours among the positions in one line each: how many, from where in the file, from which label, the first one's text."""
    labels = sorted((position, name) for name, position in program.labels.items())
    found: list[list[int]] = []
    for position in positions:
        if found and found[-1][-1] == position - 1:
            found[-1].append(position)
        else:
            found.append([position])
    return [_stretch(program.instructions[group[0]], group, [name for position, name in labels if position <= group[0]][-1:])
            for group in found]


def _stretch(first: Instruction, group: Sequence[int], label: Sequence[str]) -> str:
    location = f" at {where}" if (where := first.where()) else ""
    under = f" after label {label[0]}" if label else ""
    return f"{len(group)} from number {group[0]}{under}{location}: {first.text}"


def unexecuted(program: Program, counts: Iterable[Sequence[int]]) -> list[int]:
    """The positions that no launch executed, but for the entry of firmware that does not preload arguments."""
    entry = program.labels.get(program.entry, 0) if program.entry else 0
    return [position for position in executed(program, counts).missing if position >= entry]


def placed(program: Program, position: int) -> str:
    """For people: where an instruction stands, and what it is."""
    instruction = program.instructions[position]
    return f"{instruction.where() or program.name}: {instruction.text}"


def branch_outcomes(program: Program, counts: Iterable[Sequence[int]]) -> dict[int, set[bool]]:
    """By position, what SCC was at branches on it in launches of these counts. Nothing is told of a branch that a label follows, as code
    also comes there from elsewhere, nor of the last instruction."""
    labels, found = {*program.labels.values(), len(program.instructions)}, dict[int, set[bool]]()
    branches = [(place, one.name == "s_cbranch_scc1") for place, one in enumerate(program.instructions)
                if one.name in ("s_cbranch_scc0", "s_cbranch_scc1") and place + 1 not in labels]
    for row in counts:
        for place, taken in branches:
            met = {taken} if row[place] > row[place + 1] else set()
            found.setdefault(place, set()).update(met | ({not taken} if row[place + 1] else set()))
    return found
