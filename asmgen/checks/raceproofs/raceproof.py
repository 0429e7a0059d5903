"""Proofs that waves of a workgroup do not race in LDS, from the text alone: no two accesses by different waves, one of them a write, can
happen at once in any interleaving that barriers allow.

Two waves pass their n-th barriers together, wherever these stand. So the states of two waves are pairs of barriers, from both their begins
on; between barriers each takes any way that its code has (`intervals`), with what is alive over the barrier (`lifetimes`). At branches on
what is the same for all waves (`alike`) the second wave to come decides as the first did: a wave that runs barriers late goes the ways of
the other. Where the two decide in another order (waves with roles of their own), nobody knows, and any pair of ways is possible. Each pair
of ways is looked at for LDS bytes of both, by what addresses are on these ways (`valuepaths`).

Whatever is not known makes more possible, never less, so that what is proven holds. Waves that have ended hold no barrier up.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial

from asmgen.checks.counters.ledger import operations_of
from asmgen.checks.raceproofs.alike import AlikeBranches
from asmgen.checks.raceproofs.alikecode import AlikeWays
from asmgen.checks.raceproofs.conflicts import Conflict, Conflicts
from asmgen.checks.raceproofs.intervals import END, Intervals
from asmgen.checks.raceproofs.lifetimes import Key, lifetimes
from asmgen.checks.raceproofs.outcome import PROVEN, REFUTED, UNKNOWN, CannotTell, RaceProof, StaticRace
from asmgen.checks.raceproofs.straight import contrary, elected, straight
from asmgen.checks.raceproofs.twowaves import TwoWaves, onward
from asmgen.checks.raceproofs.valuepaths import FEW, MANY, SOME, ValuePaths
from asmgen.isa.opcode import is_lds_dma
from asmgen.isa.registers import Reg
from asmgen.program.controlflow import control_flow
from asmgen.program.program import Program

_MOST_STATES = 20_000
ALIKE = "scalar loads from one address bring all waves of a workgroup the same"
WHOLE = "a workgroup has {} work-items"


def prove_races(program: Program, block: tuple[int, int, int] | None, lds: int | None = None, once: bool = False,
                info: int | None = None) -> RaceProof:
    """Judge a program for workgroups of `block` work-items (None: not known). `lds` is how many bytes its workgroups have, where known.
    With `once`, what few values of registers do not decide stays unknown, which is quicker. `info` is the SGPR that begins with what the
    hardware says of the workgroup, which says of one wave that it is the first."""
    kinds = access_kinds(program, lds)
    if not kinds:
        return RaceProof(PROVEN, "no instruction touches LDS", block=block)
    if block is None:
        return RaceProof(UNKNOWN, "the size of its workgroups is not known", min(kinds))
    assumed = (WHOLE.format(" x ".join(map(str, block))), ALIKE)
    if block[0] * block[1] * block[2] <= 64 and not _mixed(program, kinds):
        return RaceProof(PROVEN, "a workgroup is one wave", block=block, assumptions=assumed[:1])
    begin = 0 if info is None else Reg("s", info).mask
    proof = _attempt(program, block, kinds, assumed, (FEW, SOME), begin)
    data = proof.race is not None and proof.race.first == proof.race.second  # more values change no data
    again = proof.status == UNKNOWN and not once and not data
    return _attempt(program, block, kinds, assumed, (MANY, MANY), begin) if again else proof


def _attempt(program: Program, block: tuple[int, int, int], kinds: dict[int, str], assumed: tuple[str, ...],
             most: tuple[int, int], begin: int) -> RaceProof:
    try:
        return _Proof(program, block, kinds, most, begin).judged(block, assumed)
    except CannotTell as stop:
        return RaceProof(UNKNOWN, stop.sentence, stop.position, None, block, assumed)


def access_kinds(program: Program, lds: int | None = None) -> dict[int, str]:
    """What touches LDS, by position: "load", "store" or "atomic". Flat instructions may, where a workgroup has any (`lds`)."""
    found = {}
    for position, instruction in enumerate(program.instructions):
        row = instruction.opcode.memory
        if row is None:
            continue
        if is_lds_dma(instruction.opcode, instruction.form):
            found[position] = "store"
        elif row.space == "lds" or row.space == "flat" and lds != 0:
            found[position] = row.kind
    return found


def _mixed(program: Program, kinds: dict[int, str]) -> bool:
    """Whether there are both loads into LDS and other accesses to it: one wave's own are in no order."""
    loads = [is_lds_dma(program.instructions[position].opcode, program.instructions[position].form) for position in kinds]
    return any(loads) and not all(loads)


class _Proof:
    """All pairs of waves of a program."""

    def __init__(self, program: Program, block: tuple[int, int, int], kinds: dict[int, str], most: tuple[int, int],
                 begin: int) -> None:
        flow = control_flow(program)
        self._operations, _ = operations_of(program)
        self._accesses = frozenset(kinds)
        self._paths = ValuePaths(program, flow, block, sorted(kinds), most)
        self._alive = lifetimes(self._paths, self._operations, self._accesses)
        barriers = [any(self._operations[position].barrier for position in range(one.first, one.last + 1)) for one in flow.blocks]
        self._alike = AlikeBranches(self._paths, barriers, begin)
        self._alike_loads = cache(partial(AlikeBranches, self._paths, barriers, begin, True))
        self._conflicts = Conflicts(self._paths, kinds)
        self._intervals: dict[tuple[int, AlikeWays], Intervals] = {}
        self._states = 0

    def judged(self, block: tuple[int, int, int], assumed: tuple[str, ...]) -> RaceProof:
        """What comes of all pairs: a race before what is not known."""
        unknown: RaceProof | None = None
        classes = self._classes()
        for number, one in enumerate(classes):
            for other in classes[number:]:
                if one == other and not one & one - 1:
                    continue
                proof = self._of_classes(one, other, self._alike, block, assumed)
                if proof is not None and proof.status == REFUTED:
                    again = self._of_classes(one, other, self._alike_loads(), block, assumed)
                    if again is not None and again.status == REFUTED:
                        return again
                    proof = replace(proof, status=UNKNOWN, reason=f"{proof.reason} (the two waves would have to load different numbers "
                                                                  "from one address)")
                unknown = unknown or proof
        unknown = unknown or self._alone(block, assumed)
        return unknown or RaceProof(PROVEN, "", None, None, block, assumed, self._states)

    def _alone(self, block: tuple[int, int, int], assumed: tuple[str, ...]) -> RaceProof | None:
        """Where a load into LDS and another access of the same wave meet in no order: no race of two waves, but nothing to call proven."""
        conflict = self._conflicts.alone(self._alive.unordered)
        if conflict is None:
            return None
        first, other = (self._paths.program.instructions[position] for _, position in (conflict.first, conflict.second))
        bytes_of = f"LDS bytes {conflict.low:#x}:{conflict.high:#x}" if conflict.waves else "the same LDS bytes"
        verb = "fill" if is_lds_dma(first.opcode, first.form) else "touch"
        reason = f"{first.text} may still {verb} {bytes_of} as {other.text} of the same wave touches them: no wait stands between"
        return RaceProof(UNKNOWN, reason, conflict.second[1], None, block, assumed, self._states)

    def _classes(self) -> list[int]:
        """Waves that go the same ways, as far as is known, a bit each."""
        found: dict[frozenset[int], int] = {}
        for wave in range(self._paths.waves):
            visited = frozenset(node.number for node in self._paths.nodes if node.waves >> wave & 1)
            found[visited] = found.get(visited, 0) | 1 << wave
        return list(found.values())

    def _of(self, waves: int, alike: AlikeWays) -> Intervals:
        if (waves, alike) not in self._intervals:
            self._intervals[waves, alike] = Intervals(self._paths, self._operations, self._alive, self._accesses, waves, alike)
        return self._intervals[waves, alike]

    def _of_classes(self, one: int, other: int, branches: AlikeBranches, block: tuple[int, int, int], assumed: tuple[str, ...]
                    ) -> RaceProof | None:
        """What comes of waves of two classes, which decide alike as `branches` says."""
        proof, sure = self._of_pair(one, other, branches, block, assumed, False)
        return proof if sure else self._of_pair(one, other, branches, block, assumed, True)[0]

    def _of_pair(self, one: int, other: int, branches: AlikeBranches, block: tuple[int, int, int], assumed: tuple[str, ...],
                 followed: bool) -> tuple[RaceProof | None, bool]:
        """The first race of waves of two classes, else where the proof stops; None for nothing. What is alive over barriers is that of any
        way to them, or `followed` along the ways that the two have come, which takes more states; and whether that would change nothing,
        as what was found needs nothing of what is alive over barriers."""
        lowest = (one & -one).bit_length() - 1, (other & -other).bit_length() - 1
        alike = branches.common(*lowest)
        both = self._of(one, alike), self._of(other, alike)
        nothing = frozenset[Key]()
        waiting = [TwoWaves((start, -1), (start, -1), 0, (), (nothing, nothing) if followed else None) for start in self._paths.starts
                   if self._paths.nodes[start].waves & (one | other) == one | other]
        seen = set(waiting)
        unknown: RaceProof | None = None
        sure = False
        looked: set[tuple[frozenset[Key], frozenset[Key]]] = set()
        while waiting:
            pair = waiting.pop()
            self._states += 1
            if len(seen) > _MOST_STATES:
                raise CannotTell("two waves may be at too many pairs of barriers", max(0, pair.one[1]))
            for following, mine, theirs in onward(pair, *both):
                if (mine, theirs) not in looked:
                    looked.add((mine, theirs))
                    conflict = self._conflicts.between(mine, one, theirs, other)
                    if conflict is not None:
                        over, beyond = pair.flying(*both)
                        proof, flies = self._judge(conflict, pair, both, alike.own, branches, block, assumed), \
                            conflict.first in over or conflict.second in beyond
                        if proof.status == REFUTED:
                            return proof, not flies
                        unknown, sure = unknown or proof, sure or not flies
                if (following.one, following.other) != (END, END) and following not in seen:
                    seen.add(following)
                    waiting.append(following)
        return unknown, sure or unknown is None

    def _judge(self, conflict: Conflict, pair: TwoWaves, both: tuple[Intervals, Intervals], own: bool, branches: AlikeBranches,
               block: tuple[int, int, int], assumed: tuple[str, ...]) -> RaceProof:
        """A race where both places are known and nothing speaks against the ways that lead there."""
        first, second = conflict.first, conflict.second
        instructions = self._paths.program.instructions
        if conflict.waves is None:
            text = instructions[first[1]].text
            return RaceProof(UNKNOWN, f"where in LDS {text} goes is not known, while other waves touch LDS", first[1], None, block, assumed,
                             self._states)
        race = StaticRace(first[1], second[1], conflict.waves, conflict.low, conflict.high)
        doubt = ""
        if not conflict.sure:
            doubt = "the lanes that run are not known"
        elif conflict.alike:
            doubt = "whether they write different numbers is not known"
        elif own or pair.pending is None:
            doubt = "the two waves go ways of their own, and when each leaves its loops is not known"
        elif not all(straight(self._paths, barrier, key, key in alive, self._alive, 1 << wave) for barrier, key, alive, wave in
                     zip((pair.one, pair.other), (first, second), pair.flying(*both), race.waves, strict=True)):
            doubt = "it is not known whether these ways are ever taken"
        elif contrary(self._paths, branches.unfollowed(*race.waves), (pair.one, first), (pair.other, second),
                      (1 << race.waves[0], 1 << race.waves[1])):
            doubt = "the two waves would have to decide in contrary ways what they decide alike"
        elif elected(self._paths, branches.parted(*race.waves), first, second, (1 << race.waves[0], 1 << race.waves[1])):
            doubt = "each wave decides for itself whether it goes there, and whether two do is not known"
        reason = race.sentence(self._paths.program)
        return RaceProof(UNKNOWN if doubt else REFUTED, f"{reason} ({doubt})" if doubt else reason, first[1], race, block, assumed,
                         self._states)
