"""Compiled lane kernels of the hot instructions. Imported only when one of them runs; each has a numpy function as its test oracle.

Arrays are one-dimensional and of one length. `tiny_in` and `tiny_out` are the magnitudes below which sources and results become zeros of
their sign: the least normal number where MODE flushes, 0 where it keeps denormals.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from asmgen.emulator.machine.jit import njit

_ZERO = np.float32(0)


@intrinsic
def _fma(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    """One correctly rounded multiply-add: the machine's own instruction, or the C library's function."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fma(*args)

    return a(a, b, c), generate


@intrinsic
def _double(typing_context: Any, value: Any) -> Any:
    """The f64 of a bit pattern."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(types.float64))

    return types.float64(types.int64), generate


multiply_add: Any = _fma
as_double: Any = _double


@njit(cache=True, inline="always")
def _flush(x: Any, tiny: Any) -> Any:
    return x * _ZERO if abs(x) < tiny else x


@njit(cache=True, error_model="numpy")
def add_f32(a: Any, b: Any, out: Any, tiny_in: Any, tiny_out: Any) -> None:
    """a + b."""
    for i in range(out.size):
        out[i] = _flush(_flush(a[i], tiny_in) + _flush(b[i], tiny_in), tiny_out)


@njit(cache=True, error_model="numpy")
def sub_f32(a: Any, b: Any, out: Any, tiny_in: Any, tiny_out: Any) -> None:
    """a - b."""
    for i in range(out.size):
        out[i] = _flush(_flush(a[i], tiny_in) - _flush(b[i], tiny_in), tiny_out)


@njit(cache=True, error_model="numpy")
def mul_f32(a: Any, b: Any, out: Any, tiny_in: Any, tiny_out: Any) -> None:
    """a * b."""
    for i in range(out.size):
        out[i] = _flush(_flush(a[i], tiny_in) * _flush(b[i], tiny_in), tiny_out)


@njit(cache=True, error_model="numpy")
def fma_f32(a: Any, b: Any, c: Any, out: Any, tiny_in: Any, tiny_out: Any) -> None:
    """a * b + c, rounded once."""
    for i in range(out.size):
        out[i] = _flush(multiply_add(_flush(a[i], tiny_in), _flush(b[i], tiny_in), _flush(c[i], tiny_in)), tiny_out)


@njit(cache=True, error_model="numpy")
def fma_f64(a: Any, b: Any, c: Any, out: Any) -> None:
    """a * b + c of f64, rounded once."""
    for i in range(out.size):
        out[i] = multiply_add(a[i], b[i], c[i])


@njit(cache=True, inline="always")
def _select(a: Any, b: Any, flip: Any, ieee: Any) -> Any:
    """The larger of two bit patterns of f32 as v_max_f32 has it, with `flip` -1 the smaller; `ieee` 1 quiets signaling NaNs."""
    key_a = a ^ ((a >> np.int32(31)) & np.int32(0x7FFFFFFF)) ^ flip
    key_b = b ^ ((b >> np.int32(31)) & np.int32(0x7FFFFFFF)) ^ flip
    magnitude_a, magnitude_b = a & np.int32(0x7FFFFFFF), b & np.int32(0x7FFFFFFF)
    # A signaling NaN lies between infinity and the least quiet NaN.
    limit_a = np.int32(0x7FC00000) if ieee == 1 else np.int32(0)
    signaling_a = (magnitude_a > np.int32(0x7F800000)) & (magnitude_a < limit_a)
    signaling_b = (magnitude_b > np.int32(0x7F800000)) & (magnitude_b < limit_a)
    result = a if key_a > key_b else b
    result = a if magnitude_b > np.int32(0x7F800000) else result
    result = b if magnitude_a > np.int32(0x7F800000) else result
    result = b | np.int32(0x00400000) if signaling_b else result
    return a | np.int32(0x00400000) if signaling_a else result


@njit(cache=True, inline="always")
def _flush_bits(x: Any, limit: Any) -> Any:
    return x & np.int32(-0x80000000) if (x & np.int32(0x7F800000)) < limit else x


@njit(cache=True)
def max_f32(a: Any, b: Any, out: Any, limit: Any, flip: Any, ieee: Any) -> None:
    """The larger (with `flip` -1 the smaller) of a and b, bit patterns as int32; `limit` is 1 where denormals count as zero, else 0."""
    for i in range(out.size):
        out[i] = _select(_flush_bits(a[i], limit), _flush_bits(b[i], limit), flip, ieee)


@njit(cache=True)
def max3_f32(a: Any, b: Any, c: Any, out: Any, limit: Any, flip: Any, ieee: Any) -> None:
    """The same of a, b and c, two by two."""
    for i in range(out.size):
        first = _select(_flush_bits(a[i], limit), _flush_bits(b[i], limit), flip, ieee)
        out[i] = _select(first, _flush_bits(c[i], limit), flip, ieee)


@njit(cache=True, error_model="numpy")
def exp2_f32(x: Any, out: Any) -> None:
    """2**x: a polynomial in f64 on [-1/2, 1/2], rounded once; denormal sources and results are zeros."""
    for i in range(out.size):
        value = x[i]
        inside = min(max(value, np.float32(-150)), np.float32(150))  # a NaN becomes a bound here and is put back below
        whole = np.floor(inside + np.float32(0.5))
        f = np.float64(inside) - np.float64(whole)
        p = 1.0178086009239699e-07
        p = multiply_add(p, f, 1.3215486790144307e-06)
        p = multiply_add(p, f, 1.5252733804059838e-05)
        p = multiply_add(p, f, 1.5403530393381609e-04)
        p = multiply_add(p, f, 1.3333558146428443e-03)
        p = multiply_add(p, f, 9.6181291076284772e-03)
        p = multiply_add(p, f, 5.5504108664821580e-02)
        p = multiply_add(p, f, 2.4022650695910072e-01)
        p = multiply_add(p, f, 6.9314718055994531e-01)
        p = multiply_add(p, f, 1.0)
        scale = as_double((np.int64(np.int32(whole)) + np.int64(1023)) << np.int64(52))
        result = np.float32(p * scale)
        result = _ZERO if result < np.float32(1.1754943508222875e-38) else result
        out[i] = value + value if value != value else result


@njit(cache=True)
def select_b32(a: Any, b: Any, mask: Any, out: Any) -> None:
    """b where `mask` is set, else a."""
    for i in range(out.size):
        out[i] = b[i] if mask[i] else a[i]


@njit(cache=True)
def blend_b32(value: Any, mask: Any, out: Any) -> None:
    """`value` into `out` where `mask` is set."""
    for i in range(out.size):
        out[i] = value[i] if mask[i] else out[i]


@njit(cache=True)
def flush_f32(x: Any, out: Any) -> None:
    """Bit patterns of f32 with denormals as zeros of their sign; int32."""
    for i in range(out.size):
        out[i] = _flush_bits(x[i], np.int32(1))
