"""What a proof about races comes to, and where it stops."""

from __future__ import annotations

from asmgen.isa.records import dataclass
from asmgen.program.program import Program

PROVEN, REFUTED, UNKNOWN = "proven", "refuted", "unknown"


class CannotTell(Exception):
    """A proof stops: `sentence` says why, `position` at which instruction."""

    def __init__(self, sentence: str, position: int) -> None:
        super().__init__(sentence)
        self.sentence, self.position = sentence, position


@dataclass(frozen=True)
class StaticRace:
    """Two instructions, by position, that waves (`waves`, in their order) may do at once: both to LDS bytes `low` to `high` - 1, one of
    them to write."""

    first: int
    second: int
    waves: tuple[int, int]
    low: int
    high: int

    def sentence(self, program: Program) -> str:
        """For people."""
        one, other = (program.instructions[position] for position in (self.first, self.second))
        places = [f" ({instruction.where()})" if instruction.where() else "" for instruction in (one, other)]
        return f"wave {self.waves[0]} may do {one.text}{places[0]} while wave {self.waves[1]} does {other.text}{places[1]}, both to LDS " \
               f"bytes {self.low:#x}:{self.high:#x}: no wait and barrier stand between"


@dataclass(frozen=True)
class RaceProof:
    """Whether no two accesses to LDS by different waves, one of them a write, can happen at once in any interleaving that barriers allow.

    `status` is PROVEN, REFUTED (then `race` is one that nothing speaks against) or UNKNOWN; `reason` says why, `at` is the position of the
    instruction where the proof stops. It holds for workgroups of `block` work-items under `assumptions`. `states` is how many states of
    two waves at a barrier were looked at.
    """

    status: str
    reason: str = ""
    at: int | None = None
    race: StaticRace | None = None
    block: tuple[int, int, int] | None = None
    assumptions: tuple[str, ...] = ()
    states: int = 0
