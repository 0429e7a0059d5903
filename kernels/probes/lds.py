"""Probes of LDS: latency, rates, conflicts, and the bus that a pair of SIMDs shares."""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.probes.stopwatch import Probe, Stopwatch, Times

_DEGREES = (4, 8)
"""The ways of the conflicts: so many that only the banks bind."""
_LDS_BYTES = ag.LANES * 16 * max(_DEGREES)
_ADDRESS, _RESULTS = 2, 16
_BYTES = {"b32": 4, "b64": 8, "b128": 16}


def _zeros(watch: Stopwatch) -> None:
    """Fill LDS with zeros; a register gets the lane number times 16."""
    k, v = watch.k, watch.v
    for number in range(4):
        k.v_mov_b32(v[_RESULTS + number], 0)
    k.v_lshlrev_b32(v[_ADDRESS], 4, k.work_item)
    for first in range(0, _LDS_BYTES, ag.LANES * 16):
        k.ds_write_b128(v[_ADDRESS], v[_RESULTS:_RESULTS + 3], offset=first)


def _reads(watch: Stopwatch, piece: str, width: str, stride: int) -> None:
    """Independent reads: lane l reads at l * stride."""
    k, v = watch.k, watch.v
    dwords = _BYTES[width] // 4
    k.v_mul_u32_u24(v[_ADDRESS], stride, k.work_item)
    watch.time(piece, lambda n: k.emit(f"ds_read_{width}", v[_RESULTS + 4 * (n % 16):_RESULTS + 4 * (n % 16) + dwords - 1], v[_ADDRESS]))


def _latency(watch: Stopwatch) -> None:
    k, v = watch.k, watch.v
    _zeros(watch)
    k.v_mov_b32(v[_ADDRESS], 0)
    watch.time("chain", lambda n: k.ds_read_b32(v[_ADDRESS], v[_ADDRESS]))
    watch.time("crossing", lambda n: k.ds_swizzle_b32(v[_ADDRESS], v[_ADDRESS], offset=0x1F))


def _latencies(times: Times, table: ag.Timing) -> dict[str, float]:
    """A link of a chain takes the latency and the slot of the wait."""
    return {"lds_latency": times.each("chain") - table["slot"], "lds_crossing": times.each("crossing") - table["slot"]}


def _rates(watch: Stopwatch) -> None:
    _zeros(watch)
    for width, bytes_ in _BYTES.items():
        _reads(watch, width, width, bytes_)
    for width in ("b64", "b128"):
        for degree in _DEGREES:
            _reads(watch, f"{width} {degree}-way", width, _BYTES[width] * degree)


def _rate_parameters(times: Times, table: ag.Timing) -> dict[str, float]:
    narrow, wide = times.each("b32"), times.each("b128")
    per_byte = (wide - narrow) / (ag.LANES * (_BYTES["b128"] - _BYTES["b32"]))
    interval = narrow - ag.LANES * _BYTES["b32"] * per_byte
    found = {"lds_read_interval": interval, "lds_read_interval_byte": per_byte}
    for width, name in (("b64", "lds_conflict"), ("b128", "lds_conflict_wide")):
        size = _BYTES[width]
        more = [ag.bank_cost(table.arch, f"ds_read_{width}", [lane * size * degree for lane in range(ag.LANES)], 8 * size).extra
                for degree in _DEGREES]
        few, many = (times.each(f"{width} {degree}-way") for degree in _DEGREES)
        each = found[name] = (many - few) / (more[1] - more[0])
        if width == "b128":
            found["lds_conflict_overlap"] = wide + each * more[0] - few
    return found


def _bus(watch: Stopwatch) -> None:
    """Waves 0 and 2 are on one pair of SIMDs; wave 1 ends at once."""
    k, v, s = watch.k, watch.v, watch.s
    k.v_readfirstlane_b32(s[0], k.work_item)
    k.s_cmp_eq_u32(s[0], ag.LANES)
    k.s_cbranch_scc1(watch.end)
    k.v_and_b32(v[_ADDRESS], ag.LANES - 1, k.work_item)
    k.v_lshlrev_b32(v[_ADDRESS], 4, v[_ADDRESS])
    watch.time("both", lambda n: k.ds_read_b128(v[_RESULTS + 4 * (n % 16):_RESULTS + 4 * (n % 16) + 3], v[_ADDRESS]))


def _writes(watch: Stopwatch) -> None:
    k, v = watch.k, watch.v
    _zeros(watch)
    for width in ("b32", "b128"):
        k.v_mul_u32_u24(v[_ADDRESS], _BYTES[width], k.work_item)
        dwords = _BYTES[width] // 4
        watch.time(width, lambda n, width=width, dwords=dwords: k.emit(  # type: ignore[misc]
            f"ds_write_{width}", v[_ADDRESS], v[_RESULTS:_RESULTS + dwords - 1]))


def _write_parameters(times: Times, table: ag.Timing) -> dict[str, float]:
    dword = (times.each("b128") - times.each("b32")) / 3
    return {"lds_write_issue_dword": dword, "lds_write_issue": times.each("b32") - dword}


LATENCY = Probe("lds-latency", "a dependent LDS read, and a lane crossing", _latency, _latencies, lds=_LDS_BYTES)
RATES = Probe("lds-rates", "LDS reads of one wave, without and with conflicts", _rates, _rate_parameters, lds=_LDS_BYTES)
BUS = Probe("lds-bus", "LDS reads of two waves on one pair of SIMDs", _bus,
            lambda times, table: {"lds_bus": 2 * ag.LANES * _BYTES["b128"] / times.each("both")}, ("gfx950",), waves=3, lds=_LDS_BYTES)
WRITES = Probe("lds-writes", "LDS writes of one wave", _writes, _write_parameters, lds=_LDS_BYTES)
