"""The phase probe: which lanes of a wave an LDS instruction serves together, and over how many banks (HipKittens appendix D.2).

Each pair of lanes reads two dwords of one bank while all other lanes share one dword elsewhere. The pair is slower if both lanes are served
together. Lane 0 and another lane of its phase then show the number of banks: the smallest distance at which they conflict. Four waves read
at once, so that the banks are the limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import asmgen as ag
from asmgen.kernels.probes.stopwatch import probe_builder

WAVES = 4
BANKS = (32, 64, 128)
_READS = 12
_ROW = 8192
"""The bytes between two dwords of one bank, for any number of banks."""
_RECORD = 64
"""The byte that the pair reads; the other lanes read at 0."""
_WIDTHS = {"ds_read_b32": 1, "ds_read_b64": 2, "ds_read_b96": 3, "ds_read_b128": 4}


@dataclass(frozen=True)
class PhaseProbe:
    """The kernel for one instruction. Each wave measures `measurements` times: for `pairs`, then for BANKS with each lane from 1 on."""

    op: str
    kernel: ag.Kernel
    pairs: tuple[tuple[int, int], ...]
    measurements: int


def phase_ops() -> tuple[str, ...]:
    """The instructions that the probe can measure."""
    return tuple(_WIDTHS)


def build_phase_probe(arch: str, op: str, lanes: int = ag.LANES) -> PhaseProbe:
    """Write the kernel: a loop over pairs (i, j) of the first `lanes` lanes, and a loop over lanes from 1 on and distances."""
    k = probe_builder(f"phases-{op.replace('_', '-')}", f"which lanes {op} serves together", arch, WAVES)
    k.lds.take("rows", 2 * _ROW)
    pairs = tuple((i, j) for i in range(lanes) for j in range(i + 1, lanes))
    measurements = len(pairs) + (lanes - 1) * len(BANKS)
    v, s = k.registers.vgprs(8 + 4 * _READS, "vectors"), k.registers.sgprs(12, "scalars")
    address, at, value = v[0], v[1], v[2]
    first, second, begin, end, other = s[0], s[1], s[2:3], s[4:5], s[6]
    k.v_mov_b32(at, 4 * measurements)
    k.v_mul_lo_u32(at, at, k.work_item)

    def select(number: object, byte: object) -> None:
        """Lane `number` reads at `byte`."""
        k.v_mov_b32(value, byte)
        k.s_lshl_b64(ag.exec_, 1, number)
        k.v_mov_b32(address, value)
        k.s_mov_b64(ag.exec_, -1)

    def measure() -> None:
        with k.waits("off"):
            k.s_waitcnt(vmcnt=0, lgkmcnt=0)
            k.s_barrier()
            k.s_memtime(begin)
            k.s_waitcnt(lgkmcnt=0)
            for number in range(_READS):
                k.emit(op, v[8 + 4 * number:8 + 4 * number + _WIDTHS[op] - 1], address)
            k.s_waitcnt(lgkmcnt=0)
            k.s_memtime(end)
            k.s_waitcnt(lgkmcnt=0)
        k.s_sub_u32(begin[0], end[0], begin[0])
        k.v_mov_b32(value, begin[0])
        k.global_store_dword(at, value, k.argument("out"))
        k.v_add_u32(at, 4, at)

    k.s_mov_b32(first, 0)
    k.label("rows")
    k.s_add_u32(second, first, 1)
    k.label("pairs")
    k.v_mov_b32(address, 0)
    select(first, _RECORD)
    select(second, _RECORD + _ROW)
    measure()
    k.s_add_u32(second, second, 1)
    k.s_cmp_lt_u32(second, lanes)
    k.s_cbranch_scc1("pairs")
    k.s_add_u32(first, first, 1)
    k.s_cmp_lt_u32(first, lanes - 1)
    k.s_cbranch_scc1("rows")

    k.s_mov_b32(other, 1)
    k.label("lanes")
    for banks in BANKS:
        k.v_mov_b32(address, _RECORD)  # all others share what lane 0 reads
        select(other, _RECORD + 4 * banks)
        measure()
    k.s_add_u32(other, other, 1)
    k.s_cmp_lt_u32(other, lanes)
    k.s_cbranch_scc1("lanes")
    k.s_endpgm()
    return PhaseProbe(op, k.finish(), pairs, measurements)


def solve(probe: PhaseProbe, clocks: Sequence[float]) -> tuple[int, ag.Phases]:
    """(banks, phases) from the clk of one wave. Lanes that conflict, directly or through others, are one phase.

    A conflict takes longer than the mean of the shortest and the longest pair. Banks are 0 if no distance shows a conflict.
    """
    of_pairs, of_banks = clocks[:len(probe.pairs)], clocks[len(probe.pairs):probe.measurements]
    middle = (min(of_pairs) + max(of_pairs)) / 2
    phase_of = list(range(1 + max(j for _, j in probe.pairs)))
    for (i, j), clock in zip(probe.pairs, of_pairs, strict=True):
        if clock > middle:
            old, new = phase_of[j], phase_of[i]
            phase_of = [new if one == old else one for one in phase_of]
    phases = tuple(tuple(lane for lane, one in enumerate(phase_of) if one == phase) for phase in sorted(set(phase_of)))
    meets = [any(clock > middle for clock in of_banks[number::len(BANKS)]) for number in range(len(BANKS))]
    return next((banks for banks, meet in zip(BANKS, meets, strict=True) if meet), 0), phases
