"""The three orders of waves: which group runs next, and how long it stays.

Lock-step favours the group that stands lowest in the program, so that loops and branches reconverge, but lets no group run more
than `LEAD` rounds (backward branches) ahead of another, so that a wave that spins cannot keep others from running. Groups that
cannot come together before the next barrier, as those in two copies of a loop, take turns of a few instructions each, as
hardware would interleave them: some production kernels are right only then (docs/facts/semantics.md section 15).
Serial and random run single waves, to show that nothing depends on the order.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.machine.errors import EmulatorError
from asmgen.emulator.machine.kept import kept
from asmgen.emulator.machine.state import Group, Machine
from asmgen.emulator.scheduling.meetings import BARRIER, Meetings
from asmgen.isa.quote import quoted
from asmgen.program.program import Program

Waves = NDArray[np.int64]
Position = tuple[int, int, int]
"""Where a group stands: position, MODE, index."""
_MOST_DIGITS = 18  # of a seed
LEAD = 256  # backward branches that a group may be ahead of the one that made the fewest


class Order(Protocol):
    """What the scheduler asks of an order. `group.order` counts a group's backward branches."""

    def add(self, waves: Waves, position: int, order: int, mode: int, index: int) -> None:
        """Waves of one MODE and index stand before `position` and can run."""

    def take(self) -> Group:
        """The group that runs next."""

    def stays(self, group: Group) -> bool:
        """Whether the running group goes on at its new position; if not, the scheduler gives it back."""

    def meet(self, waves: Waves) -> None:
        """A barrier lets these waves go at once."""

    def __len__(self) -> int: ...


class Lockstep:
    """All waves that stand at the same instruction run it together."""

    def __init__(self, machine: Machine, program: Program) -> None:
        self.machine = machine
        self.groups: dict[Position, Group] = {}
        self.meetings = kept(program, "_meetings", (), lambda: _meetings(program))
        self.ran = np.zeros(machine.waves, np.int64)  # cycles of the machine's clock that each wave has used, or got at a barrier
        self._running: Waves | None = None
        self._since = 0

    def __len__(self) -> int:
        return len(self.groups)

    def add(self, waves: Waves, position: int, order: int, mode: int, index: int) -> None:
        """They join those who stand there with the same MODE and index."""
        other = self.groups.pop((position, mode, index), None)
        if other is not None:
            waves, order = np.union1d(other.waves, waves), max(order, other.order)
            self.ran[waves] = self.ran[waves].max()
        self.groups[position, mode, index] = Group(self.machine, waves, position, order, mode, index)

    def take(self) -> Group:
        """The first of those that are not too far ahead."""
        self._account()
        if len(self.groups) == 1:
            group = self.groups.popitem()[1]
        else:
            limit = min(group.order for group in self.groups.values()) + LEAD
            group = self.groups.pop(self._first({spot: group for spot, group in self.groups.items() if group.order <= limit}))
        self._running = group.waves
        return group

    def stays(self, group: Group) -> bool:
        """While it is still the first and nobody stands at the same instruction."""
        if not self.groups:
            return True
        self._account()
        spot = group.position, group.mode, group.index
        limit = min(group.order, min(other.order for other in self.groups.values())) + LEAD
        if group.order > limit or spot in self.groups:
            return False
        return self._first({spot: group} | {spot: other for spot, other in self.groups.items() if other.order <= limit}) == spot

    def meet(self, waves: Waves) -> None:
        """They are level from now on."""
        self._account()
        self.ran[waves] = self.machine.clock

    def _account(self) -> None:
        """Note for how long the running waves have run."""
        if self._running is not None:
            self.ran[self._running] += self.machine.clock - self._since
        self._since = self.machine.clock

    def _first(self, groups: dict[Position, Group]) -> Position:
        """The place of the lowest in the program; of those that none lower can come to before a barrier, that of the one that ran least."""
        if self.meetings is None:
            return min(groups, key=lambda spot: (spot[0], groups[spot].order))
        reached = 0
        apart: list[tuple[int, Position]] = []
        for spot in sorted(groups, key=lambda spot: (spot[0], groups[spot].order)):
            stretch = self.meetings.stretch(spot[0])
            if not reached >> stretch & 1:
                apart.append((int(self.ran[groups[spot].waves].max()), spot))
            reached |= self.meetings.reached(stretch)
        return min(apart)[1]


def _meetings(program: Program) -> Meetings | None:
    return Meetings(program) if any(instruction.name == BARRIER for instruction in program.instructions) else None


class Serial:
    """One wave after the other, lowest first; a wave yields at barriers, at s_sleep and when it spins."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.waiting: deque[Group] = deque()
        self.until = 0

    def __len__(self) -> int:
        return len(self.waiting)

    def meet(self, waves: Waves) -> None:
        """It makes no difference."""

    def add(self, waves: Waves, position: int, order: int, mode: int, index: int) -> None:
        """Each wave becomes a group of its own, after the others."""
        self.waiting.extend(Group(self.machine, waves[n:n + 1], position, order, mode, index) for n in range(len(waves)))

    def take(self) -> Group:
        """The first in the queue."""
        group = self.waiting.popleft()
        self.until = group.order + LEAD
        return group

    def stays(self, group: Group) -> bool:
        """Until it has gone backwards `LEAD` times: it may be waiting for others."""
        return group.order <= self.until or not self.waiting


class Random:
    """Single waves, chosen anew after every few segments."""

    def __init__(self, machine: Machine, seed: int) -> None:
        self.machine = machine
        self.waiting: list[Group] = []
        self.choice = random.Random(seed)

    def __len__(self) -> int:
        return len(self.waiting)

    def meet(self, waves: Waves) -> None:
        """It makes no difference."""

    def add(self, waves: Waves, position: int, order: int, mode: int, index: int) -> None:
        """Each wave becomes a group of its own."""
        self.waiting += [Group(self.machine, waves[n:n + 1], position, order, mode, index) for n in range(len(waves))]

    def take(self) -> Group:
        """Any of them."""
        number = self.choice.randrange(len(self.waiting))
        self.waiting[number], self.waiting[-1] = self.waiting[-1], self.waiting[number]
        return self.waiting.pop()

    def stays(self, group: Group) -> bool:
        """Three times of four."""
        return not self.waiting or self.choice.random() < 0.75


def order_of(name: str) -> Callable[[Machine, Program], Order]:
    """The order of that name: lockstep, serial or random:SEED. Raises EmulatorError for another."""
    if name == "lockstep":
        return Lockstep
    if name == "serial":
        return lambda machine, _: Serial(machine)
    seed = name.removeprefix("random:")
    if seed != name and len(seed) <= _MOST_DIGITS and seed.isascii() and seed.isdigit():
        return lambda machine, _: Random(machine, int(seed))
    raise EmulatorError(f"unknown order of waves {quoted(name)}; known are lockstep, serial and random:SEED")
