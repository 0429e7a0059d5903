"""Compiled kernels for the hottest instructions, by mnemonic: each gives, for a MODE, a function (sources, out).

All float sources are [waves, 64] and contiguous. numba is imported when one of them first runs. The tables of `floats` and `integers` hold
the numpy function of each, its test oracle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asmgen.emulator.machine.floatmode import FloatMode
from asmgen.emulator.semantics.rounding import flush

Values = Any
Kernel = Callable[[list[Values], Values], None]
_MANY = 2048
_TINY = np.float32(2.0**-126)
_ZERO = np.float32(0)


def fast_flush(values: Values) -> Values:
    """`flush`, compiled where it pays."""
    values = np.asarray(values)
    if values.dtype != np.float32 or values.size < _MANY or not values.flags.c_contiguous:
        return flush(values)
    from asmgen.emulator.semantics.kernels import flush_f32

    out = np.empty_like(values)
    flush_f32(values.view(np.int32).reshape(-1), out.view(np.int32).reshape(-1))
    return out


def _kernel(name: str) -> Any:
    from asmgen.emulator.semantics import kernels

    return getattr(kernels, name)


def _arithmetic(name: str, order: tuple[int, ...]) -> Callable[[FloatMode], Kernel]:
    def make(mode: FloatMode) -> Kernel:
        compiled = _kernel(name)
        tiny_in, tiny_out = (_TINY if flushes else _ZERO for flushes in (mode.flush32_in, mode.flush32_out))

        def run(sources: list[Values], out: Values) -> None:
            compiled(*[sources[n].reshape(-1) for n in order], out.reshape(-1), tiny_in, tiny_out)

        return run

    return make


def _largest(name: str, smallest: bool) -> Callable[[FloatMode], Kernel]:
    def make(mode: FloatMode) -> Kernel:
        compiled = _kernel(name)
        # A denormal that only the result's flush would clear is cleared before: which source is chosen makes no difference then.
        limit, flip, ieee = np.int32(mode.flush32_in or mode.flush32_out), np.int32(-1 if smallest else 0), np.int32(mode.ieee)

        def run(sources: list[Values], out: Values) -> None:
            compiled(*[value.view(np.int32).reshape(-1) for value in sources], out.view(np.int32).reshape(-1), limit, flip, ieee)

        return run

    return make


def _exponential(mode: FloatMode) -> Kernel:
    compiled = _kernel("exp2_f32")
    return lambda sources, out: compiled(sources[0].reshape(-1), out.reshape(-1))


def _conditional(mode: FloatMode) -> Kernel:
    compiled = _kernel("select_b32")
    return lambda sources, out: compiled(*[value.reshape(-1) for value in sources], out.reshape(-1))


FAST: dict[str, Callable[[FloatMode], Kernel]] = {
    "v_add_f32": _arithmetic("add_f32", (0, 1)), "v_sub_f32": _arithmetic("sub_f32", (0, 1)),
    "v_subrev_f32": _arithmetic("sub_f32", (1, 0)),
    "v_mul_f32": _arithmetic("mul_f32", (0, 1)), "v_fma_f32": _arithmetic("fma_f32", (0, 1, 2)),
    "v_fmac_f32": _arithmetic("fma_f32", (0, 1, 2)), "v_fmamk_f32": _arithmetic("fma_f32", (0, 1, 2)),
    "v_fmaak_f32": _arithmetic("fma_f32", (0, 1, 2)),
    "v_max_f32": _largest("max_f32", False), "v_min_f32": _largest("max_f32", True),
    "v_max3_f32": _largest("max3_f32", False), "v_min3_f32": _largest("max3_f32", True),
    "v_exp_f32": _exponential, "v_cndmask_b32": _conditional,
}
