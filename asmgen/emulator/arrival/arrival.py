"""When data has arrived: tickets for every outstanding operation, what waits settle, and registers that are touched too early.

Each wave numbers its operations per queue (vector memory, LDS, scalar, flat). A register remembers the ticket of the last
operation that will write it; a queue remembers up to which ticket its wave has waited. Nothing here is taken from the wait pass,
which is judged by it. LDS is in `ldsraces`, device memory in `globalraces`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.arrival.findings import Finding, Findings
from asmgen.emulator.machine.state import Group, Machine
from asmgen.isa.arch import COUNTER_MAX
from asmgen.isa.operands import Waitcnt
from asmgen.isa.records import dataclass
from asmgen.isa.registers import SGPR_BIT, mask_names
from asmgen.program.program import Instruction, Program

VM, LDS, SMEM, FLAT = range(4)
QUEUES = (VM, LDS, SMEM, FLAT)
"""SMEM has all that lgkmcnt(0) settles, and nothing less: scalar operations, and what flat ones do in LDS."""
_BITS = SGPR_BIT + 129
MOST_OUTSTANDING = {VM: COUNTER_MAX["vmcnt"], LDS: COUNTER_MAX["lgkmcnt"]}
"""What vmcnt and lgkmcnt can count: one operation more stalls at its issue until the oldest of an in-order queue has finished
(docs/facts/semantics.md section 13). Scalar and flat operations finish in any order, so a full counter tells nothing of them."""


@dataclass(frozen=True)
class RegisterTouch:
    """What the arrival checks must know of one instruction: masks (one bit a register of the unified file), and its queue."""

    position: int
    reads: int
    writes: int
    queue: int | None
    kept: int = 0
    """Destinations that a load joins its half to: of its own queue, what is in flight to them arrives first, in order."""


class Counters:
    """Tickets per wave: `issued` and `done` [queue, wave]; what they were at the last barrier release: `crossed` and `settled`."""

    def __init__(self, waves: int) -> None:
        self.issued = np.zeros((len(QUEUES), waves), np.int32)
        self.done = np.zeros((len(QUEUES), waves), np.int32)
        self.settled = np.zeros((len(QUEUES), waves), np.int32)
        self.crossed = np.zeros((len(QUEUES), waves), np.int32)
        self._flat = np.zeros((2, waves), np.int32)  # flat tickets after which vmcnt, lgkmcnt have been waited down to 0

    def reset(self) -> None:
        """Other waves take these waves' places."""
        for tickets in (self.issued, self.done, self.settled, self.crossed, self._flat):
            tickets.fill(0)

    def issue(self, group: Group, queue: int) -> NDArray[np.int32]:
        """Number one more operation of each wave; returns the tickets."""
        self.issued[queue, group.select] += 1
        return self.issued[queue, group.select]

    def issue_flat(self, group: Group, some: NDArray[np.bool_]) -> NDArray[np.int32]:
        """As `issue` for a flat operation; the waves of which `some` lanes go to LDS have a ticket of the queue SMEM too."""
        self.issued[SMEM, group.select] += some
        return self.issue(group, FLAT)

    def hold(self, group: Group, queue: int) -> bool:
        """Settle what must have finished for the newest operation to be issued at all; whether that was anything."""
        if queue not in MOST_OUTSTANDING:
            return False
        chosen = group.select
        finished = self.issued[queue, chosen] - MOST_OUTSTANDING[queue]
        if finished.max() <= 0 or (finished <= self.done[queue, chosen]).all():
            return False
        self.done[queue, chosen] = np.maximum(self.done[queue, chosen], finished)
        return True

    def wait(self, group: Group, wait: Waitcnt) -> None:
        """Settle what a wait guarantees.

        In-order queues settle all but the newest n operations. Scalar loads arrive in any order: only 0 tells. A flat operation
        counts on both counters and keeps neither's order: both must have been waited down to 0, by one wait or by two, but for what it
        does in LDS, which is done when lgkmcnt is 0.
        """
        chosen = group.select
        for count, queue in ((wait.vmcnt, VM), (wait.lgkmcnt, LDS)):
            if count is not None:
                self.done[queue, chosen] = np.maximum(self.done[queue, chosen], self.issued[queue, chosen] - count)
        if wait.lgkmcnt == 0:
            self.done[SMEM, chosen] = self.issued[SMEM, chosen]
        halves = [half for half, count in enumerate((wait.vmcnt, wait.lgkmcnt)) if count == 0]
        if halves:
            for half in halves:
                self._flat[half, chosen] = self.issued[FLAT, chosen]
            self.done[FLAT, chosen] = np.minimum(self._flat[0, chosen], self._flat[1, chosen])

    def complete(self, waves: NDArray[np.int64]) -> None:
        """Ended waves have nothing outstanding. To others of their workgroup that is settled at the next barrier."""
        self.done[:, waves] = self.issued[:, waves]

    def release(self, waves: NDArray[np.int64]) -> None:
        """A barrier has let these waves go: what they had waited for is settled for the interval that begins."""
        self.settled[:, waves] = self.done[:, waves]
        self.crossed[:, waves] = self.issued[:, waves]


class RegisterArrival:
    """Reads before the wait, and overwrites of a destination that is still to be written.

    `loaded` are the registers that any operation of the program will write some time after its issue: no other is ever waited for.
    """

    def __init__(self, machine: Machine, counters: Counters, program: Program, findings: Findings, loaded: int) -> None:
        self.machine = machine
        self.counters = counters
        self.program = program
        self.findings = findings
        self.loaded = loaded
        self.hot = [0] * len(QUEUES)
        self.tickets = np.zeros((len(QUEUES), _BITS, machine.waves), np.int32)
        self.producers = np.zeros((_BITS, machine.waves), np.int32)

    def reset(self) -> None:
        """Other waves take these waves' places: nothing is in flight."""
        self.hot = [0] * len(QUEUES)
        self.tickets.fill(0)

    def before(self, group: Group, touch: RegisterTouch) -> None:
        """Check that what an instruction touches has arrived. Costs next to nothing while nothing is in flight."""
        touched = touch.reads | touch.writes
        for queue in QUEUES:
            mask = touched & self.hot[queue]
            if mask and touch.kept and queue == touch.queue and queue in (VM, LDS):
                mask &= ~touch.kept
            if mask:
                self._check(group, touch, queue, mask)

    def issue(self, group: Group, touch: RegisterTouch, tickets: NDArray[np.int32]) -> None:
        """Note that an operation will write its destination registers."""
        assert touch.queue is not None
        self.hot[touch.queue] |= touch.writes
        for first, last in ranges_of(touch.writes):
            self.tickets[touch.queue][first:last + 1, group.select] = tickets
            self.producers[first:last + 1, group.select] = touch.position

    def issue_flat(self, group: Group, touch: RegisterTouch, tickets: NDArray[np.int32], within: NDArray[np.bool_]) -> None:
        """`issue` of a flat operation; what comes from LDS alone, for the waves `within` it, is there when lgkmcnt is 0."""
        self.issue(group, touch, np.where(within, np.int32(0), tickets))
        if within.any():
            self.hot[SMEM] |= touch.writes
            waves = group.waves[within]
            for first, last in ranges_of(touch.writes):
                self.tickets[SMEM][first:last + 1, waves] = self.counters.issued[SMEM, waves]

    def waited(self) -> None:
        """Waves have waited: where nothing of a queue is in flight any more, nobody need look at its registers."""
        for queue in QUEUES:
            if self.hot[queue] and (self.counters.done[queue] == self.counters.issued[queue]).all():
                self.hot[queue] = 0

    def _check(self, group: Group, touch: RegisterTouch, queue: int, mask: int) -> None:
        for first, last in ranges_of(mask):
            waiting = self.tickets[queue][first:last + 1, group.select] > self.counters.done[queue, group.select]
            if waiting.any():
                self._report(group, touch, queue, first, waiting)
            elif group.size == self.machine.waves or (self.tickets[queue, first:last + 1] <= self.counters.done[queue]).all():
                self.hot[queue] &= ~(((1 << last + 1 - first) - 1) << first)

    def _report(self, group: Group, touch: RegisterTouch, queue: int, first: int, waiting: NDArray[np.bool_]) -> None:
        register, number = (int(index) for index in np.argwhere(waiting)[0])
        wave = int(group.waves[number])
        instructions = self.program.instructions
        producer, consumer = instructions[int(self.producers[first + register, wave])], instructions[touch.position]
        reading = bool(touch.reads >> first + register & 1)
        check = "read-before-wait" if reading else "overwrite-before-wait"
        name = register_name(self.machine, first + register, consumer)
        counter = ("vmcnt", "lgkmcnt", "lgkmcnt", "vmcnt and lgkmcnt")[queue]
        verb = "is read" if reading else "is overwritten"
        # Loads of a queue return in order, so a load over a load's destination leaves the right value: only who reads between them is
        # wrong. Scalar and flat loads keep no order.
        ordered = not reading and queue == touch.queue and queue in (VM, LDS)
        message = f"{name} {verb} before a wait on {counter} says that it has arrived"
        self.findings.add(Finding(check, "warning" if ordered else "error", message, producer, consumer, wave,
                                  int(self.machine.workgroup[wave])))


def ranges_of(mask: int) -> list[tuple[int, int]]:
    """The runs of set bits, first and last."""
    found = []
    base = 0
    while mask:
        skip = (mask & -mask).bit_length() - 1
        base, mask = base + skip, mask >> skip
        count = (~mask & (mask + 1)).bit_length() - 1
        found.append((base, base + count - 1))
        base, mask = base + count, mask >> count
    return found


def register_name(machine: Machine, bit: int, consumer: Instruction) -> str:
    """A bit of the unified file as the consumer spells it: v or a, where both name it."""
    if bit >= SGPR_BIT:
        return mask_names(1 << bit)[0]
    spelled = {reg.file for reg in (*consumer.read_registers, *consumer.written_registers) if reg.file in "va"}
    if bit >= machine.accum_offset and "a" in spelled:
        return f"a{bit - machine.accum_offset}"
    return f"v{bit}"
