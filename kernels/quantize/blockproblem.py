"""The bytes and scales that must come out of MX blocks, by the rules as written (docs/facts/blockscales.md sections 1 and 2)."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import asmgen as ag
from asmgen.kernels.quantize.formats import BLOCKS, least_scale_stride, row_bytes
from asmgen.kernels.rows.blockscales import BLOCK, SHUFFLED_ROWS
from asmgen.kernels.rows.reference import Array

_FORMATS: dict[str, tuple[Any, int, int, float]] = {
    "fp4": (ml_dtypes.float4_e2m1fn, 1, 2, 6.0), "fp6": (ml_dtypes.float6_e2m3fn, 3, 2, 7.5), "bf6": (ml_dtypes.float6_e3m2fn, 2, 4, 28.0),
    "fp8": (ml_dtypes.float8_e4m3fn, 3, 8, 448.0), "bf8": (ml_dtypes.float8_e5m2, 2, 15, 57344.0)}
"""The numpy type, bits of the mantissa, the exponent of the largest number, and that number."""
_BIAS, _NAN = 127, 255


def block_outputs(p: ag.Values, x: Array) -> tuple[ag.Output, ...]:
    """d and scales of rows of float32. Of a block with a NaN or an infinity the scale says all: its elements may be any."""
    kind, mantissa, top, most = _FORMATS[BLOCKS[p["to"]]]
    rows, blocks = len(x), -(-x.shape[1] // BLOCK)
    padded = np.zeros((rows, blocks * BLOCK), np.float32)
    padded[:, :x.shape[1]] = x
    parts = padded.reshape(rows, blocks, BLOCK)
    largest = np.abs(parts).max(2)
    bits = largest.view(np.uint32).astype(np.int64)
    if p["rounding"] == "up":
        scaled = (largest * np.float32(1 / most)).view(np.uint32).astype(np.int64)
        exponents = (scaled >> 23) + ((scaled & 0x7FFFFF) != 0)
    else:
        half = 1 << 22 - mantissa if p["rounding"] == "even" else 0
        exponents = np.maximum((bits + half >> 23) - top, 0)
    exponents = np.where(np.isfinite(largest), exponents, _NAN)
    quotients = np.ldexp(np.where(np.isfinite(largest)[..., None], parts.astype(float), 0.0), _BIAS - exponents[..., None])
    codes = np.clip(quotients, -most, most).astype(kind).view(np.uint8).reshape(rows, -1)
    unknown = np.repeat(exponents == _NAN, row_bytes(p) // blocks, 1)
    made = _packed(codes, ag.element_bits(BLOCKS[p["to"]]))
    d = ag.Output("d", np.where(unknown, 128, made), 128.0 * unknown, (slice(None), slice(row_bytes(p))))
    return d, _scales(p, exponents)


def _packed(codes: Array, bits: int) -> Array:
    """Codes of so many bits, the first one lowest, as bytes."""
    if bits == 8:
        return codes
    apart = (codes[..., None] >> np.arange(bits)) & 1
    found: Array = np.packbits(apart.reshape(len(codes), -1).astype(np.uint8), axis=1, bitorder="little")
    return found


def _scales(p: ag.Values, exponents: Array) -> ag.Output:
    count = least_scale_stride(p)
    if p["layout"] == "plain":
        return ag.Output("scale", exponents, 0.0, (slice(None), slice(count)))
    rows = len(exponents)
    whole = np.zeros((rows, count))
    whole[:, :exponents.shape[1]] = exponents
    x, y = np.meshgrid(np.arange(rows), np.arange(count), indexing="ij")
    at = (x // 32) * SHUFFLED_ROWS * p["scale_stride"] + (y // 8) * 256 + y % 4 * 64 + x % 16 * 4 + y // 4 % 2 * 2 + x // 16 % 2
    return ag.Output("scale", whole, 0.0, (at // p["scale_stride"], at % p["scale_stride"]))
