"""LDS races in loops whose addresses take turns: buffers that alternate are told apart in a program with more rounds written out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from asmgen.checks.barrierraces.barrierraces import LdsRace
from asmgen.program.controlflow import ControlFlow
from asmgen.program.program import Program
from asmgen.program.unrolled import Unrolled, inner_loops, unroll

_TURNS = (2, 3, 4)
"""Rounds after which addresses are what they were: as many as there are buffers, in all kernels known here."""
_LONGEST = 30_000  # instructions


def races_by_rounds(program: Program, flow: ControlFlow, races: Sequence[LdsRace], known: Callable[[Program], frozenset[int]],
                    judge: Callable[[Program], list[LdsRace]]) -> list[LdsRace]:
    """The races of a program, some of them of unknown places, with those that show where loops are written out. `known` says of which
    accesses of a program the places are known, `judge` what races it has."""
    sure = known(program)
    unknown = {position for race in races if race.bytes is None for position in (*race.first, race.second)} - sure
    longer = _longer(program, flow, unknown, known)
    if longer is None:
        return list(races)
    found = [_back(race, longer) for race in judge(longer.program)]
    told = [race for race in races if race.bytes is not None]
    for race in found:
        if race.bytes is not None and not any(_same(race, other) for other in told):
            told.append(race)
    return told + [race for race in races if race.bytes is None and any(_same(race, other) for other in found if other.bytes is None)]


def _longer(program: Program, flow: ControlFlow, unknown: set[int], known: Callable[[Program], frozenset[int]]) -> Unrolled | None:
    """The shortest program in which most of the places are known that were not, None where it is none more."""
    loops = [loop for loop in inner_loops(flow) if any(loop.first <= position <= loop.last for position in unknown)]
    inside = {position for position in unknown if any(loop.first <= position <= loop.last for loop in loops)}
    best, most = None, 0
    for times in _TURNS:
        if len(program) + (times - 1) * sum(loop.last - loop.first + 2 for loop in loops) > _LONGEST:
            break
        longer = unroll(program, loops, times)
        locations = known(longer.program)
        still = {position for location, position in enumerate(longer.original) if position in inside and location not in locations}
        if len(inside) - len(still) > most:
            best, most = longer, len(inside) - len(still)
        if not still:
            break
    return best


def _back(race: LdsRace, longer: Unrolled) -> LdsRace:
    """A race with the positions of the shorter program."""
    first = tuple(dict.fromkeys(longer.original[position] for position in race.first))
    return replace(race, first=first, second=longer.original[race.second], at=longer.original[race.at])


def _same(one: LdsRace, other: LdsRace) -> bool:
    return one.at == other.at and bool(set(one.first) & set(other.first))

