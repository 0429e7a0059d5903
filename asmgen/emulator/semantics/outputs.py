"""What happens to a result on its way out: omod, clamp, saturation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from asmgen.emulator.machine.floatmode import FloatMode
from asmgen.emulator.semantics.rounding import flush, narrow, wide
from asmgen.emulator.semantics.values import NUMPY_TYPES

Values = Any
Function = Callable[..., Values]


def clamp(mode: FloatMode, value: Values) -> Values:
    """Limited to 0 .. 1; a NaN becomes 0 under DX10_CLAMP, else stays; -0 becomes 0 (unconfirmed)."""
    value = np.asarray(value)
    limited = np.minimum(np.maximum(value, value.dtype.type(0)), value.dtype.type(1)) + value.dtype.type(0)
    return np.where(np.isnan(value), value.dtype.type(0) if mode.dx10_clamp else value, limited)


def scale_output(mode: FloatMode, kind: str, factor: float, value: Values) -> Values:
    """omod: not with IEEE, nor where denormal results are kept; denormals and -0 become 0 (CDNA ISA, 6.2.2)."""
    if mode.ieee or not mode.flushes_out(kind):
        return value
    scaled = narrow(wide(value) * factor, kind, mode)
    flushed = flush(scaled)
    return flushed + flushed.dtype.type(0)


def _clamp_bf16(mode: FloatMode, value: Values) -> Values:
    """`clamp` of both halves of registers; the limits are bf16 numbers, so that nothing is rounded."""
    words = np.asarray(value)
    halves = [clamp(mode, np.ascontiguousarray(half).view(np.float32)).view(np.uint32)
              for half in (words << np.uint32(16), words & np.uint32(0xFFFF0000))]
    return halves[0] >> np.uint32(16) | halves[1]


def output_of(name: str, kind: str, mode: FloatMode, modifiers: Mapping[str, Any]) -> Function | None:
    """omod and clamp of a float result as one function, of each half or register of a pair; None where there is nothing to do."""
    factor = float(modifiers.get("mul") or 0) or (0.5 if modifiers.get("div") else 0.0)
    clamps = bool(modifiers.get("clamp"))
    if kind in ("v2f16", "v2f32"):
        element = output_of(name, kind[2:], mode, modifiers)
        if element is None or kind == "v2f32":
            return element
        return lambda value: element(np.ascontiguousarray(value).view(np.float16)).view(np.uint32)
    if kind == "v2bf16":
        if factor:
            raise ValueError(f"omod of {name}: bf16 results have none")
        return (lambda value: _clamp_bf16(mode, value)) if clamps else None
    if kind not in ("f16", "f32", "f64") or not (factor or clamps):
        return None

    def output(value: Values) -> Values:
        if factor:
            value = scale_output(mode, kind, factor, value)
        return clamp(mode, value) if clamps else value

    return output


def limit_integer(exact: Function, kind: str, carry: Function | None = None) -> Function:
    """The exact function limited to a type's range (with "" wrapped to 32 bits); `carry` gives the flag that goes with it.

    Packed and 64-bit results have been limited by their functions; several registers are limited one by one.
    """

    def function(*values: Values) -> Values:
        result = exact(*values)
        if kind == "":
            return result.astype(np.uint32)
        if kind in ("b64", "u64"):
            return result
        element: Any = NUMPY_TYPES[kind.lstrip("0123456789")]
        limits = np.iinfo(element)
        limited = np.clip(result, limits.min, limits.max).astype(element)
        return (limited, carry(*values)[1]) if carry is not None else limited

    return function
