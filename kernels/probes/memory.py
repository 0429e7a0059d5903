"""Probes of vector and scalar memory: latencies by pointer chase, and the throughput of one compute unit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

import asmgen as ag
from asmgen.kernels.probes.stopwatch import MANY, Probe, Stopwatch, Times

_LINE = 128
_ADDRESS, _RESULTS = 2, 16
_WAVES = 4


def _chain(room: int) -> npt.NDArray[np.uint32]:
    """A chain of byte offsets through `room` bytes: each dword holds the offset of the next one, which is in another cache line."""
    lines = min(room // _LINE, 1 << 23)
    addresses = np.random.default_rng(0).permutation(lines)[:8 * MANY] * (room // lines // _LINE * _LINE)
    addresses[0] = 0
    data = np.zeros(room // 4, np.uint32)
    data[addresses[:-1] // 4] = addresses[1:]
    return data


def _chase(watch: Stopwatch) -> None:
    k, v = watch.k, watch.v
    k.v_mov_b32(v[_ADDRESS], 0)
    watch.time("chase", lambda n: k.global_load_dword(v[_ADDRESS], v[_ADDRESS], watch.data))


def _scalar_chase(watch: Stopwatch) -> None:
    k, s = watch.k, watch.s
    k.s_mov_b32(s[0], 0)
    watch.time("chase", lambda n: k.s_load_dword(s[0], watch.data, s[0]))


def _latency(name: str) -> Callable[[Times, ag.Timing], dict[str, float]]:
    """A link of a chain takes the latency and the slot of the wait."""
    return lambda times, table: {name: times.each("chase") - table["slot"]}


def _lane_address(watch: Stopwatch, stride: int) -> None:
    k, v = watch.k, watch.v
    k.v_mul_u32_u24(v[_ADDRESS], stride, k.work_item)


def _through(watch: Stopwatch) -> None:
    k, v = watch.k, watch.v
    for piece, stride, dwords in (("dword", 4, ""), ("wide", 16, "x4"), ("lines", _LINE, "")):
        _lane_address(watch, stride)
        last = 3 if dwords else 0
        watch.time(piece, lambda n, op=f"global_load_dword{dwords}", last=last: k.emit(  # type: ignore[misc]
            op, v[_RESULTS + 4 * (n % 16):_RESULTS + 4 * (n % 16) + last], v[_ADDRESS], watch.data))


def _through_parameters(times: Times, table: ag.Timing) -> dict[str, float]:
    return {"tcp_dword": times.each("dword") / _WAVES, "tcp_wide": times.each("wide") / _WAVES,
            "tcp_line": times.each("lines") / _WAVES / ag.LANES}


def _stores(watch: Stopwatch) -> None:
    k, v = watch.k, watch.v
    _lane_address(watch, 16)
    watch.time("stores", lambda n: k.global_store_dwordx4(v[_ADDRESS], v[_RESULTS:_RESULTS + 3], watch.data))


L2 = Probe("latency-l2", "a pointer chase through more than L1 and less than L2", _chase, _latency("latency_l2"),
           data=lambda room: _chain(min(room, 2 << 20)))
HBM = Probe("latency-hbm", "a pointer chase through more than the last-level cache", _chase,
            _latency("latency_hbm"), data=_chain, level="hbm")
SCALAR_CACHE = Probe("latency-scalar", "a chain of scalar loads of one line", _scalar_chase, _latency("smem_latency"))
THROUGH = Probe("memory-rates", "loads of four waves from L2: coalesced dwords, 16 bytes a lane, and a line a lane", _through,
                _through_parameters, waves=_WAVES, data=lambda room: np.zeros(ag.LANES * _WAVES * _LINE // 4, np.uint32))
STORES = Probe("stores", "stores of one wave", _stores, lambda times, table: {"vmem_store_rate": ag.LANES * 16 / times.each("stores")},
               data=lambda room: np.zeros(ag.LANES * 4, np.uint32))
