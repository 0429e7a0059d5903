"""The kernel of a probe: s_memtime times pieces of code, each repeated few and many times.

The overhead of a piece (the latency of the clock, waits, the barrier before it) is the same for both counts. So the difference is due to
the repetitions alone. Work-item i writes its deltas to the dwords of `out` from i * pieces on, in the order of the pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import asmgen as ag

FEW, MANY = 16, 48
"""Repetitions of a piece: enough for a steady state, and few enough for the instruction cache."""


@dataclass(frozen=True)
class Times:
    """The clk of wave 0 by piece and repetitions, on the device that ran the probe."""

    clocks: Mapping[tuple[str, int], float]

    def each(self, piece: str) -> float:
        """The clk of one repetition."""
        few, many = sorted(count for name, count in self.clocks if name == piece)
        return (self.clocks[piece, many] - self.clocks[piece, few]) / (many - few)


@dataclass
class Stopwatch:
    """A probe's kernel while it is written: its registers, and `time` for each piece. Waves without work branch to `end`."""

    k: ag.KernelBuilder
    v: ag.Reg
    s: ag.Reg
    a: ag.Reg
    clock: ag.Reg
    out: ag.Reg
    data: ag.Reg
    end: str
    pieces: list[tuple[str, int]] = field(default_factory=list)
    _deltas: list[ag.Reg] = field(default_factory=list)

    def time(self, piece: str, body: Callable[[int], object], counts: Sequence[int] = (FEW, MANY)) -> None:
        """Time `count` calls of `body(number)` in a row, in all waves at once, for each count."""
        k = self.k
        for count in counts:
            begin, end = self.clock[0:1], self.clock[2:3]
            with k.waits("off"):
                self._drain()
                k.s_barrier()
                k.s_memtime(begin)
                k.s_waitcnt(lgkmcnt=0)
            for number in range(count):
                body(number)
            with k.waits("off"):
                self._drain()
                k.s_memtime(end)
                k.s_waitcnt(lgkmcnt=0)
            delta = k.registers.sgprs(1, f"delta{len(self._deltas)}")
            k.s_sub_u32(delta, end[0], begin[0])
            self.pieces.append((piece, count))
            self._deltas.append(delta)

    def _drain(self) -> None:
        self.k.s_waitcnt(vmcnt=0, lgkmcnt=0)

    def store(self) -> None:
        """Write the deltas."""
        k, at, value = self.k, self.v[0], self.v[1]
        k.v_mul_u32_u24(at, 4 * len(self._deltas), k.work_item)
        for number, delta in enumerate(self._deltas):
            k.v_mov_b32(value, delta)
            k.global_store_dword(at, value, self.out, offset=4 * number)


@dataclass(frozen=True)
class Probe:
    """A measurement: `write` emits the pieces, and `solve` computes `parameters` of the timing table from their times.

    `waves` run together in one workgroup. `data` makes the dwords (an array or a sequence) of the argument of that name, at most `room`
    bytes. `level` is the memory level in which the model finds them.
    """

    name: str
    title: str
    write: Callable[[Stopwatch], None]
    solve: Callable[[Times, ag.Timing], dict[str, float]]
    archs: tuple[str, ...] = ("gfx942", "gfx950")
    waves: int = 1
    lds: int = 0
    data: Callable[[int], Any] = lambda room: (0,)
    level: str = "l2"


@dataclass(frozen=True)
class ProbeKernel:
    """A probe's kernel for one architecture, and its pieces in order."""

    probe: Probe
    kernel: ag.Kernel
    pieces: tuple[tuple[str, int], ...]


def probe_builder(name: str, title: str, arch: str, waves: int) -> ag.KernelBuilder:
    """A builder for one workgroup of `waves` waves, with the arguments `out` and `data`."""
    arguments = (ag.ContractArgument("out", "pointer", "a dword a work-item and measurement"),
                 ag.ContractArgument("data", "pointer", "what the probe reads"))
    contract = ag.KernelContract(f"probe-{name}", title, (arch,), (), arguments, (ag.LANES * waves, 1, 1),
                              ag.Formula("one workgroup", lambda values: (1, 1, 1)), None)
    return ag.KernelBuilder(contract, arch, {}, waves=2)


def build_probe(probe: Probe, arch: str) -> ProbeKernel:
    """Write the kernel. Raises AsmgenError if the architecture lacks what it measures."""
    k = probe_builder(probe.name, probe.title, arch, probe.waves)
    if probe.lds:
        k.lds.take("data", probe.lds)
    watch = Stopwatch(k, k.registers.vgprs(120, "vectors"), k.registers.sgprs(16, "scalars"), k.registers.agprs(64, "accumulators"),
                      k.registers.sgprs(4, "clock"), k.argument("out"), k.argument("data"), k.fresh("end"))
    probe.write(watch)
    watch.store()
    k.label(watch.end)
    k.s_endpgm()
    return ProbeKernel(probe, k.finish(), tuple(watch.pieces))
