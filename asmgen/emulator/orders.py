"""The three orders of waves: which group runs next, and how long it stays.

Lock-step favours the group that stands lowest in the program, so that loops and branches reconverge, but lets no group run more
than a window of rounds (backward branches) ahead of another, so that a wave that spins cannot keep others from running.
Serial and random run single waves, to show that nothing depends on the order.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.errors import EmulatorError
from asmgen.emulator.state import Group, Machine

Waves = NDArray[np.int64]
WINDOW = 256  # backward branches that a group may be ahead of the one that made the fewest


class Order(Protocol):
    """What the scheduler asks of an order. `group.order` counts a group's backward branches."""

    def add(self, waves: Waves, position: int, order: int, mode: int, index: int) -> None:
        """Waves of one MODE and index stand before `position` and can run."""

    def take(self) -> Group:
        """The group that runs next."""

    def stays(self, group: Group) -> bool:
        """Whether the running group goes on at its new position; if not, the scheduler gives it back."""

    def __len__(self) -> int: ...


class Lockstep:
    """All waves that stand at the same instruction run it together."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.groups: dict[tuple[int, int, int], Group] = {}

    def __len__(self) -> int:
        return len(self.groups)

    def add(self, waves: Waves, position: int, order: int, mode: int, index: int) -> None:
        """They join those who stand there with the same MODE and index."""
        other = self.groups.pop((position, mode, index), None)
        if other is not None:
            waves, order = np.union1d(other.waves, waves), max(order, other.order)
        self.groups[position, mode, index] = Group(self.machine, waves, position, order, mode, index)

    def take(self) -> Group:
        """The lowest in the program among those that are not too far ahead."""
        if len(self.groups) == 1:
            return self.groups.popitem()[1]
        limit = min(group.order for group in self.groups.values()) + WINDOW
        key = min((key for key, group in self.groups.items() if group.order <= limit), key=lambda key: (key[0], self.groups[key].order))
        return self.groups.pop(key)

    def stays(self, group: Group) -> bool:
        """While nobody who may run stands at the same instruction or before it."""
        if not self.groups:
            return True
        limit = min(group.order, min(other.order for other in self.groups.values())) + WINDOW
        if group.order > limit:
            return False
        return all(other.position > group.position or other.order > limit for other in self.groups.values())


class Serial:
    """One wave after the other, lowest first; a wave yields at barriers, at s_sleep and when it spins."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.waiting: deque[Group] = deque()
        self.until = 0

    def __len__(self) -> int:
        return len(self.waiting)

    def add(self, waves: Waves, position: int, order: int, mode: int, index: int) -> None:
        """Each wave becomes a group of its own, behind the others."""
        self.waiting.extend(Group(self.machine, waves[n:n + 1], position, order, mode, index) for n in range(len(waves)))

    def take(self) -> Group:
        """The first in the queue."""
        group = self.waiting.popleft()
        self.until = group.order + WINDOW
        return group

    def stays(self, group: Group) -> bool:
        """Until it has gone backwards a window's number of times: it may be waiting for others."""
        return group.order <= self.until or not self.waiting


class Random:
    """Single waves, chosen anew behind every few segments."""

    def __init__(self, machine: Machine, seed: int) -> None:
        self.machine = machine
        self.waiting: list[Group] = []
        self.choice = random.Random(seed)

    def __len__(self) -> int:
        return len(self.waiting)

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


def order_of(name: str) -> Callable[[Machine], Order]:
    """The order of that name: lockstep, serial or random:SEED. Raises EmulatorError for another."""
    if name == "lockstep":
        return Lockstep
    if name == "serial":
        return Serial
    if name.startswith("random:") and name[7:].isdigit():
        return lambda machine: Random(machine, int(name[7:]))
    raise EmulatorError(f"unknown order of waves {name!r}; known are lockstep, serial and random:SEED")
