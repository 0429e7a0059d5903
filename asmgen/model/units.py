"""The shared units of a compute unit: LDS after the buses of the SIMD pairs, and vector memory with its queue and its return.

LDS: each pair of SIMDs has a FIFO in order, an issue bus, a data bus each way; after both pairs stand the banks. An access starts when
it is first in its FIFO and the bus, the banks and its SIMD are free. Loads into LDS come back over the write port, and win it.

Vector memory: one queue in order. The cache takes an access when it is done with those before, by the lines touched, and when what is in
flight leaves room; data comes back in order after the round trip, as fast as the cache's path and the unit's share of far memory allow.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field
from math import ceil

from asmgen.emulator.scheduling.trace import PRIVATE
from asmgen.isa.arch import SIMDS
from asmgen.isa.timing import Timing
from asmgen.model.costs import IssueCost, bank_clocks, read_interval
from asmgen.model.farmemory import FarMemory
from asmgen.model.loadfreeends import LoadBurst

NEVER = 1 << 60


@dataclass
class UnitAccess:
    """One memory access under way. `done` is NEVER until it is known when its data is there."""

    done: int = NEVER
    cause: str = ""
    issued: int = 0
    started: int = 0
    burst: LoadBurst | None = None


@dataclass
class _Entry:
    access: UnitAccess
    issued: int
    simd: int
    cost: IssueCost
    cycles: int


@dataclass
class _Pair:
    """A SIMD pair's way to LDS."""

    waiting: deque[_Entry] = field(default_factory=deque)
    released: deque[int] = field(default_factory=deque)  # when the entries that have started leave the FIFO
    bus_in: int = 0
    bus_out: int = 0
    issue_bus: int = 0
    last_done: int = 0


class Lds:
    """LDS of one compute unit; SIMDs s and s + 2 are a pair."""

    def __init__(self, timing: Timing) -> None:
        self._latency = timing.clocks("lds_latency")
        self._depth, self._hold = timing.clocks("lds_fifo"), timing.clocks("lds_fifo_hold")
        self._issue_bus, self._crossing = timing.clocks("lds_issue_bus"), timing.clocks("lds_crossing")
        self._pairs = (_Pair(), _Pair())
        self._simd_free = [0] * SIMDS
        self._banks = 0
        self._served = 1  # the pair that the banks served last
        self._port: list[tuple[int, int]] = []  # when the write port is taken by loads into LDS, in order
        self._port_starts: list[int] = []
        self.busy = 0  # clk of the banks

    def free_at(self, simd: int, now: int) -> int:
        """The first clk at which a SIMD may issue to its pair, `now` or later; what is not known yet counts as `now` + 4."""
        pair = self._pairs[simd & 1]
        self.advance(now)
        released = pair.released
        while released and released[0] <= now:
            released.popleft()
        free = max(now, pair.issue_bus)
        if len(pair.waiting) + len(released) >= self._depth:
            index = len(pair.waiting) + len(released) - self._depth
            free = max(free, released[index] if index < len(released) else now + 4)
        return free

    def issue(self, simd: int, now: int, cost: IssueCost, cycles: int) -> UnitAccess:
        """Put an access into its pair's FIFO; `cycles` is what its addresses take from the banks."""
        pair = self._pairs[simd & 1]
        access = UnitAccess(cause="wait lgkm", issued=now)
        pair.issue_bus = now + self._issue_bus
        pair.waiting.append(_Entry(access, now, simd, cost, bank_clocks(cost, cycles)))
        self.advance(now)
        return access

    def cross(self, simd: int, now: int) -> UnitAccess:
        """A permute: it passes through the unit and touches no bank."""
        pair = self._pairs[simd & 1]
        pair.issue_bus = now + self._issue_bus
        pair.last_done = max(pair.last_done, now + self._crossing)
        return UnitAccess(pair.last_done, "wait lgkm", now, now)

    def advance(self, now: int) -> None:
        """Start whatever can start until `now`, the earlier of the pairs' first entries first; of two, the pair that waited."""
        while True:
            best: tuple[int, int] | None = None
            for number, pair in enumerate(self._pairs):
                if pair.waiting:
                    start = self._start(pair, pair.waiting[0])
                    if start <= now and (best is None or (start, number == self._served) < (best[0], best[1] == self._served)):
                        best = start, number
            if best is None:
                return
            self._served = best[1]
            self._serve(self._pairs[best[1]], best[0])

    def next_start(self) -> int:
        """When the next entry can start; NEVER where none waits."""
        return min((self._start(pair, pair.waiting[0]) for pair in self._pairs if pair.waiting), default=NEVER)

    def dma(self, start: int, clocks: int) -> None:
        """A load into LDS takes the write port from `start` on."""
        self._port.append((start, start + clocks))
        self._port_starts.append(start)

    def _start(self, pair: _Pair, entry: _Entry) -> int:
        start = max(entry.issued, self._banks, pair.bus_out if entry.cost.store else pair.bus_in, self._simd_free[entry.simd])
        if entry.cost.store and self._port:
            at = max(0, bisect_right(self._port_starts, start) - 1)
            for begin, end in self._port[at:]:
                if begin >= start + entry.cycles:
                    break
                start = max(start, end)
        return start

    def _serve(self, pair: _Pair, start: int) -> None:
        entry = pair.waiting.popleft()
        bus = entry.cost.lds_bus
        if entry.cost.store:
            pair.bus_out = start + bus
        if entry.cost.returns:
            pair.bus_in = max(pair.bus_in, start) + bus
        self._banks = start + entry.cycles
        self.busy += entry.cycles
        if not entry.cost.store:
            self._simd_free[entry.simd] = start + read_interval(entry.cost, entry.cycles)
        pair.released.append(start + self._hold)
        done = start + self._latency + max(0, max(entry.cycles, bus) - entry.cost.lds_interval)
        pair.last_done = entry.access.done = max(done, pair.last_done)
        entry.access.started = start


class VectorMemory:
    """The vector memory path of one compute unit. A round trip begins where the cache starts on an access: the queue is not part of it."""

    def __init__(self, timing: Timing, far: FarMemory, lds: Lds) -> None:
        self._depth, self._room = timing.clocks("vmem_queue"), timing.clocks("vmem_in_flight")
        self._far = far
        self._line = timing["tcp_line"]
        self._lds = lds
        self._starts: deque[int] = deque()
        self._flying: deque[tuple[int, int]] = deque()  # (returned at, bytes) in order
        self._in_flight = 0
        self._free = 0
        self._last_return = 0
        self._shared = 0.0  # up to when the unit has used its share of far memory
        self.busy = 0  # clk of the cache
        self.bursts: list[LoadBurst] = []  # of far loads, in order

    def service(self, cost: IssueCost, lines: int) -> int:
        """How long the cache is busy with an access of so many lines; of no lane: a clk."""
        return max(cost.line_floor, round(lines * self._line)) if lines else 1

    def free_at(self, now: int) -> int:
        """The first clk from `now` on at which the queue has room."""
        starts = self._starts
        while starts and starts[0] <= now:
            starts.popleft()
        return now if len(starts) < self._depth else starts[len(starts) - self._depth]

    def issue(self, now: int, cost: IssueCost, lines: int, argument: int) -> UnitAccess:
        """Put an access into the queue; everything about it is known at once, as the queue and the returns are in order."""
        clocks = self.service(cost, lines)
        bytes_ = min(cost.taken(lines), self._room)
        start = max(now, self._free)
        flying = self._flying
        while flying and (flying[0][0] <= start or self._in_flight + bytes_ > self._room):
            back, freed = flying.popleft()
            self._in_flight -= freed
            start = max(start, back)
        self._free = start + clocks
        self.busy += clocks
        self._starts.append(start)
        far = self._far
        trip, due = far.store, start
        if not lines:
            trip = 0  # no lane, no memory
        elif cost.returns:
            trip = far.round_trip(argument)
            self._shared = max(self._shared, start - far.burst / far.rate) + bytes_ / far.rate
            due = max(start, ceil(self._shared - bytes_ / far.rate))
        back = self._last_return = max(due + trip, self._last_return + clocks)
        flying.append((back, bytes_))
        self._in_flight += bytes_
        if cost.dma and lines:
            self._lds.dma(back - clocks, clocks)
        loads = cost.returns and lines and argument != PRIVATE
        return UnitAccess(back, "wait vm", now, start, self._burst(start, back, trip, argument) if loads else None)

    def _burst(self, start: int, back: int, trip: int, argument: int) -> LoadBurst:
        """Of a load that the cache starts on, and whose data is there after its trip."""
        bursts = self.bursts
        if not bursts or start > bursts[-1].end:
            bursts.append(LoadBurst(start, back, trip, argument))
        bursts[-1].end = back
        return bursts[-1]
