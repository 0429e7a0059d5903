"""The bytes and scales that must come out of MX blocks, by the rules as written (docs/facts/blockscales.md sections 1 and 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import asmgen as ag
from asmgen.kernels.rows.blockscales import BLOCK, SHUFFLED_ROWS, least_scales
from asmgen.kernels.rows.reference import Array

_FORMATS: dict[str, tuple[Any, int, int, float]] = {
    "fp4": (ml_dtypes.float4_e2m1fn, 1, 2, 6.0), "fp6": (ml_dtypes.float6_e2m3fn, 3, 2, 7.5), "bf6": (ml_dtypes.float6_e3m2fn, 2, 4, 28.0),
    "fp8": (ml_dtypes.float8_e4m3fn, 3, 8, 448.0), "bf8": (ml_dtypes.float8_e5m2, 2, 15, 57344.0)}
"""The numpy type, bits of the mantissa, the exponent of the largest number, and that number."""
_BIAS, _NAN = 127, 255


@dataclass(frozen=True)
class BlockForm:
    """MX blocks of elements of a type (fp4, fp6, bf6, fp8, bf8), the rule and the places of their scales, `stride` from row to row."""

    element: str
    rounding: str
    layout: str
    stride: int


def block_outputs(form: BlockForm, x: Array, error: Array | float = 0.0) -> tuple[ag.Output, ag.Output]:
    """d and scales of rows whose float32 numbers are off by `error` at most. Of a block with a NaN or an infinity the scale says all: its
    elements may be any; and so they may where the error decides on the scale."""
    rows, columns = x.shape
    blocks = -(-columns // BLOCK)
    with np.errstate(all="ignore"):
        off = np.nan_to_num(np.broadcast_to(np.asarray(error, float), x.shape), nan=0.0, posinf=0.0)
        parts, offs = (_in_blocks(one, blocks) for one in (x.astype(float), off))
        low, high = (_exponents(form, np.maximum(np.abs(parts) + sign * offs, 0).max(2)) for sign in (-1, 1))
        kind, _, _, most = _FORMATS[form.element]
        known = np.where(np.isfinite(parts), parts, 0.0)
        codes = [np.clip(np.ldexp(known + sign * offs, _BIAS - high[..., None]), -most, most).astype(kind).view(np.uint8)
                 for sign in (-1, 1)]
    bits = ag.element_bits(form.element)
    least = np.where((codes[0] ^ codes[1]) >> bits - 1 & 1, 0, np.minimum(*codes))  # of either sign: 0 is among the numbers between
    ends = [_packed(one.reshape(rows, -1), bits).astype(float) for one in (least, np.maximum(*codes))]
    unknown = np.repeat((high == _NAN) | (low != high), BLOCK * bits // 8, 1)
    ends = [np.where(unknown, end, one) for end, one in zip((0.0, 255.0), ends, strict=True)]
    d = ag.Output("d", (ends[0] + ends[1]) / 2, (ends[1] - ends[0]) / 2, (slice(None), slice(ends[0].shape[1])))
    return d, _scales(form, (low + high) / 2, (high - low) / 2)


def _in_blocks(x: Array, blocks: int) -> Array:
    padded = np.zeros((len(x), blocks * BLOCK))
    padded[:, :x.shape[1]] = x
    return padded.reshape(len(x), blocks, BLOCK)


def _exponents(form: BlockForm, sizes: Array) -> Array:
    """The scales of blocks of which those are the largest magnitudes."""
    _, mantissa, top, most = _FORMATS[form.element]
    largest = sizes.astype(np.float32)
    bits = largest.view(np.uint32).astype(np.int64)
    if form.rounding == "up":
        scaled = (largest * np.float32(1 / most)).view(np.uint32).astype(np.int64)
        exponents = (scaled >> 23) + ((scaled & 0x7FFFFF) != 0)
    else:
        half = 1 << 22 - mantissa if form.rounding == "even" else 0
        exponents = np.maximum((bits + half >> 23) - top, 0)
    found: Array = np.where(np.isfinite(largest), exponents, _NAN)
    return found


def _packed(codes: Array, bits: int) -> Array:
    """Codes of so many bits, the first one lowest, as bytes."""
    if bits == 8:
        return codes
    apart = (codes[..., None] >> np.arange(bits)) & 1
    found: Array = np.packbits(apart.reshape(len(codes), -1).astype(np.uint8), axis=1, bitorder="little")
    return found


def _scales(form: BlockForm, exponents: Array, error: Array) -> ag.Output:
    count = least_scales(exponents.shape[1] * BLOCK, form.layout)
    if form.layout == "plain":
        return ag.Output("scale", exponents, error, (slice(None), slice(count)))
    rows = len(exponents)
    whole, errors = np.zeros((2, rows, count))
    whole[:, :exponents.shape[1]], errors[:, :exponents.shape[1]] = exponents, error
    x, y = np.meshgrid(np.arange(rows), np.arange(count), indexing="ij")
    at = (x // 32) * SHUFFLED_ROWS * form.stride + (y // 8) * 256 + y % 4 * 64 + x % 16 * 4 + y // 4 % 2 * 2 + x // 16 % 2
    return ag.Output("scale", whole, errors, (at // form.stride, at % form.stride))
