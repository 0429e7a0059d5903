"""The check of a pipeline's text against emission order, on each way through its copies.

The meaning of a way is its units step by step, as the author's function emits them, without those of iterations that do not exist. Each
unit of an existing iteration runs once, its reads get the definitions of that order, and accesses of the same memory, one of them a write,
keep it. A definition is named by its unit and its step. A copy that is reached with the same definitions as before, as many steps ago, is
not walked again: the time grows with the text, not with the counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from asmgen.author.loop.pathgraph import EXIT, PathChoice, PathCopy, PathGraph
from asmgen.author.step.effects import Unit
from asmgen.author.step.merge import MergeError, described, difference
from asmgen.author.step.reaching import BEFORE, ENTRY, Definitions, Parts, Reaching
from asmgen.isa.records import dataclass

_STEP, _NOWHERE = 1 << 20, 1 << 19
"""A unit's name is its step times the first number, plus its ordinal, plus the second number if its iteration does not exist."""
_Read = Sequence["Definitions | None"]


@dataclass(eq=False)
class _State:
    """What is known before step `step` of a way: definitions in the order of the text and in emission order, and by name the units of steps
    from here on that stand already, with the definitions that they read."""

    step: int
    placed: Reaching
    meant: Reaching
    early: dict[int, tuple[Unit, _Read]]


def check_paths(graph: PathGraph, schedule: str) -> None:
    """Raises MergeError for a way on which a unit reads another definition than in emission order, passes one that it may not pass, or runs
    twice or not at all. `schedule` is the name that errors use."""
    _PathCheck(graph, schedule).check()


class _PathCheck:
    def __init__(self, graph: PathGraph, schedule: str) -> None:
        self.graph, self.schedule = graph, schedule
        every = list({id(unit): unit for copy in graph.copies for _, unit in copy.placed}.values())
        self.parts = Parts(every)
        self.units = {unit.tag.ordinal: unit for unit in every}
        self.alike: dict[tuple[int, str], set[int]] = defaultdict(set)  # ordinals by iteration ahead and condition
        for ordinal, unit in self.units.items():
            self.alike[graph.offsets[ordinal], unit.tag.condition].add(ordinal)
        # From how many steps before the end on all units of a copy exist.
        self.whole = [max((ahead + graph.offsets[unit.tag.ordinal] + 1 for ahead, unit in copy.placed), default=0) for copy in graph.copies]
        self.oldest = -2 * _STEP  # units pass others of their own step and the next one only: older definitions are alike
        self._numbers: dict[object, int] = {}
        self._states: list[_State] = []
        self._after: dict[tuple[int, int, int], int] = {}  # (copy, state before, steps to the end) -> state after
        self._complete: set[tuple[int, ...]] = set()

    def check(self) -> None:
        ahead = self.graph.ahead
        for copy in self.graph.copies:
            self._check_passed([], [(step * _STEP + unit.tag.ordinal, unit) for step, unit in copy.placed])
        begin = self._number(_State(-ahead, Reaching(self.parts), Reaching(self.parts), {}))
        for choice in self.graph.choices(self.graph.unroll):
            state, step = begin, -ahead
            for number in self.graph.way(choice):
                copy = self.graph.copies[number]
                key = number, state, min(choice.count - step, self.whole[number])
                self._check_complete(number, state, step, choice)
                if key not in self._after:
                    self._after[key] = self._number(self._passed(copy, self._states[state], step, choice.count))
                state = self._after[key]
                step += copy.steps
            if step != choice.count or self._states[state].early:
                raise MergeError(f"the schedule {self.schedule} breaks the step: the paths end {choice} after {step} steps")

    def _passed(self, copy: PathCopy, before: _State, step: int, count: int) -> _State:
        """The state after a copy that is step `step` of its way."""
        placed, meant, offsets = before.placed.copy(), before.meant.copy(), self.graph.offsets
        units = dict(before.early)
        for ahead, unit in copy.placed:
            ordinal = unit.tag.ordinal
            name = (before.step + ahead) * _STEP + ordinal
            if not 0 <= step + ahead + offsets[ordinal] < count:
                placed.pass_unit(name + _NOWHERE, unit)
            elif name in units:
                raise self._refused(f"{described(unit)} stands twice for one iteration", unit)
            else:
                units[name] = unit, placed.pass_unit(name, unit)
        if before.early:
            self._check_passed([(name, unit) for name, (unit, _) in before.early.items()],
                               [(name, unit) for name, (unit, _) in units.items() if name not in before.early])
        end = before.step + copy.steps
        for name in sorted(name for name in units if name < end * _STEP):
            unit, given = units.pop(name)
            wanted = meant.pass_unit(name, unit)
            if given != wanted:
                raise self._refused(difference(unit, self.parts, wanted, given, lambda one: self.units[one % _NOWHERE]), unit)
        return _State(end, placed, meant, units)

    def _check_passed(self, first: Sequence[tuple[int, Unit]], then: Sequence[tuple[int, Unit]]) -> None:
        """Refuse units, each with its name and in the order of the text, if one stands before another that it may not pass. Those in
        `first` are known to pass each other."""
        def bound(units: Iterable[tuple[int, Unit]]) -> list[tuple[int, Unit]]:
            return [(name, unit) for name, unit in units if unit.effects.memory or unit.effects.fence or unit.effects.in_place]

        if any(unit.effects.fence for _, unit in (*first, *then)):
            seen, following = list(first), list(then)
        else:
            seen, following = bound(first), bound(then)
        for name, unit in following:
            for other_name, other in seen:
                if other_name > name:
                    self._check_pair(unit, other)
            seen.append((name, unit))

    def _check_pair(self, unit: Unit, other: Unit) -> None:
        """Refuse a unit that stands after `other`, which is later in emission order, if it may not."""
        effects, theirs = unit.effects, other.effects
        conflict = next(((one, more) for one in effects.memory for more in theirs.memory if one.conflicts(more)), None)
        if conflict is not None:
            what = f"LDS {conflict[0].part or conflict[1].part or 'data'}" if conflict[0].space == "lds" else "global memory"
            why = f", and both touch {what}, one of them writing"
        elif effects.fence or theirs.fence:
            why = ": nothing crosses a barrier or a branch"
        elif (effects.in_place or theirs.in_place) and unit.stream == other.stream:
            why = ", and one of them may not move in its stream"
        else:
            return
        raise self._refused(f"{described(other)} is placed before {described(unit)}{why}", other)

    def _check_complete(self, number: int, state: int, step: int, choice: PathChoice) -> None:
        """Refuse a copy without a unit that its steps need, or with one that they may not have."""
        copy, ahead = self.graph.copies[number], self.graph.ahead
        far = ahead + copy.steps
        border, left = min(max((choice.plain or 0) - step, 0), far), min(choice.count - step, far)
        key = number, state, min(step, 0), border, left
        if key in self._complete or copy.kind == EXIT:
            return
        self._complete.add(key)
        before = self._states[state]
        found = {at: {name % _STEP for name in before.early if name // _STEP == before.step + at} for at in range(copy.steps)}
        for at, unit in copy.placed:
            if at < copy.steps:
                found[at].add(unit.tag.ordinal)
        for at in range(copy.steps):
            for (offset, condition), ordinals in self.alike.items():
                iteration = step + at + offset
                if not 0 <= iteration < choice.count:
                    continue
                wanted = iteration >= (choice.plain or 0) if condition == "masked" else \
                    not condition or (iteration == 0) == (condition == "first")
                wrong = ordinals - found[at] if wanted else set() if condition == "masked" else ordinals & found[at]
                if wrong:
                    unit = self.units[min(wrong)]
                    raise self._refused(f"{described(unit)} {'does not run' if wanted else 'runs'} in iteration {iteration} of "
                                        f"{choice.count}", unit)

    def _refused(self, sentence: str, unit: Unit) -> MergeError:
        return MergeError(f"the schedule {self.schedule} breaks the step: {sentence}", unit.first.where())

    # ---- states ----

    def _number(self, state: _State) -> int:
        """The number of a state: one that differs only in the number of its step has the same."""
        step = state.step
        key = (self._key(state.placed, step), self._key(state.meant, step),
               frozenset([(name - step * _STEP, unit.tag.phase, tuple([self._shifted(one or BEFORE, step) for one in read]))
                          for name, (unit, read) in state.early.items()]))
        if key not in self._numbers:
            self._numbers[key] = len(self._states)
            self._states.append(state)
        return self._numbers[key]

    def _key(self, reaching: Reaching, step: int) -> object:
        shifted = self._shifted
        back, oldest = step * _STEP, self.oldest
        found = frozenset([(bit, max(found[0] - back, oldest + found[0] % _STEP) if len(found) == 1 and found[0] is not ENTRY
                            else shifted(found, step)) for bit, found in reaching.now.items()])
        if not self.parts.exec_changes:
            return found
        held = {name for found in reaching.now.values() for name in found}
        reaching.exec_of = {name: under for name, under in reaching.exec_of.items() if name in held}
        return (found, reaching.full, tuple([shifted(one, step) for one in reaching.under]),
                frozenset([(shifted((name,), step), *[shifted(one, step) for one in under]) for name, under in reaching.exec_of.items()]))

    def _shifted(self, definitions: Definitions, step: int) -> tuple[int | None, ...]:
        """Definitions by the steps since then; old ones are as old as each other."""
        back, oldest = step * _STEP, self.oldest
        if len(definitions) == 1 and definitions[0] is not ENTRY:
            return (max(definitions[0] - back, oldest + definitions[0] % _STEP),)
        return tuple(dict.fromkeys([ENTRY if name is ENTRY else max(name - back, oldest + name % _STEP) for name in definitions]))
