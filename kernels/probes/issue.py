"""Probes of issue and of the matrix core: issue intervals and latencies by kind of instruction."""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.probes.stopwatch import Probe, Stopwatch, Times

_SHADOWED = 20  # VALU instructions after a matrix instruction: more than fit into its gap
_SOURCES, _RESULTS = 2, 16


def _vector(watch: Stopwatch) -> None:
    k, v = watch.k, watch.v
    watch.time("plain", lambda n: k.v_mov_b32(v[_RESULTS + n % 8], v[_SOURCES]))
    watch.time("plain chain", lambda n: k.v_add_f32(v[_SOURCES], v[_SOURCES], v[_SOURCES]))
    watch.time("trans", lambda n: k.v_exp_f32(v[_RESULTS + n % 8], v[_SOURCES]))
    watch.time("trans chain", lambda n: k.v_exp_f32(v[_SOURCES], v[_SOURCES]))
    watch.time("quarter", lambda n: k.v_mul_lo_u32(v[_RESULTS + n % 8], v[_SOURCES], v[_SOURCES + 1]))
    watch.time("quarter chain", lambda n: k.v_mul_lo_u32(v[_SOURCES], v[_SOURCES], v[_SOURCES + 1]))


def _vector_parameters(times: Times, table: ag.Timing) -> dict[str, float]:
    found = {}
    for name, piece in (("valu", "plain"), ("trans", "trans"), ("quarter", "quarter")):
        found[f"{name}_issue"] = times.each(piece)
        found[f"{name}_latency"] = times.each(f"{piece} chain")
    return found


def _permlane(watch: Stopwatch) -> None:
    k, v = watch.k, watch.v
    watch.time("swap", lambda n: k.v_permlane32_swap_b32(v[_RESULTS + 2 * (n % 8)], v[_RESULTS + 2 * (n % 8) + 1]))


def _scalar(watch: Stopwatch) -> None:
    k, s = watch.k, watch.s

    def branch(number: int) -> None:
        label = k.fresh("over")
        k.s_branch(label)
        k.s_nop(0)
        k.label(label)

    def passed(number: int) -> None:
        label = k.fresh("passed")
        k.s_cbranch_scc1(label)
        k.label(label)

    k.s_mov_b32(s[0], 0)
    watch.time("scalar chain", lambda n: k.s_add_u32(s[0], s[0], 1))
    k.s_cmp_lg_u32(s[0], s[0])
    watch.time("taken", branch)
    k.s_cmp_lg_u32(s[0], s[0])
    watch.time("not taken", passed)
    watch.time("sleep", lambda n: k.s_sleep(2))


def _scalar_parameters(times: Times, table: ag.Timing) -> dict[str, float]:
    return {"salu_latency": times.each("scalar chain"), "branch_taken": times.each("taken"), "branch_not_taken": times.each("not taken"),
            "sleep_unit": (times.each("sleep") - table["slot"]) / 2}


def _matrix_name(arch: str) -> str:
    return "v_mfma_f32_32x32x16_bf16" if arch == "gfx950" else "v_mfma_f32_32x32x8_bf16"


def _matrix(watch: Stopwatch) -> None:
    k, v, a = watch.k, watch.v, watch.a
    name = _matrix_name(k.arch)
    operands = (v[2:5], v[6:9]) if k.arch == "gfx950" else (v[2:3], v[6:7])

    def independent(number: int) -> None:
        tile = a[16 * (number % 4):16 * (number % 4) + 15]
        k.emit(name, tile, *operands, tile)

    def shadowed(number: int) -> None:
        independent(number)
        for offset in range(_SHADOWED):
            k.v_mov_b32(v[_RESULTS + offset], v[_SOURCES + 8])

    watch.time("independent", independent)
    watch.time("chain", lambda n: k.emit(name, a[0:15], *operands, a[0:15]))
    watch.time("shadow", shadowed, (8, 16))


def _matrix_parameters(times: Times, table: ag.Timing) -> dict[str, float]:
    """Instructions after a matrix instruction issue once its operands are read. The time beyond its occupancy is the gap."""
    _, _, busy = occupancy(times, table.arch)
    return {"mfma_gap": max(times.each("chain"), times.each("independent")) - busy,
            "mfma_operand_read": times.each("shadow") - _SHADOWED * table["valu_issue"]}


def occupancy(times: Times, arch: str) -> tuple[str, float, float]:
    """(instruction, measured clk, clk of the table) of the matrix probe."""
    name = _matrix_name(arch)
    return name, times.each("independent"), 4 * ag.MFMA[name].passes_on(arch, 0, 0)


VECTOR = Probe("vector", "issue and latency of VALU, transcendental and 32-bit product instructions", _vector, _vector_parameters)
PERMLANE = Probe("permlane", "issue of lane swaps", _permlane, lambda times, table: {"permlane_issue": times.each("swap")}, ("gfx950",))
SCALAR = Probe("scalar", "scalar instructions, branches and s_sleep", _scalar, _scalar_parameters)
MATRIX = Probe("matrix", "matrix instructions: rate, chain, and what issues in their shadow", _matrix, _matrix_parameters)
BARRIER = Probe("barrier", "from a barrier's last arrival to the next issue",
                lambda watch: watch.time("barrier", lambda n: watch.k.s_barrier()),
                lambda times, table: {"barrier_release": times.each("barrier")}, waves=4)
