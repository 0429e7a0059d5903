"""Packing codes into bytes, e8m0 scales and MX blocks; see the package for the sources' abbreviations."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from asmgen.isa.numbers.codec import check_codes, decode, encode, scale_factors, source_array
from asmgen.isa.numbers.numberformat import FORMATS, MX_BLOCK, SCALE_BIAS, SCALE_NAN, Array, Format, FormatError, resolve_format


def pack(codes: ArrayLike, fmt: Format | str) -> Array:
    """uint8 [..., K*bits/8] of codes [..., K]: the item*bits bit string, little-endian (docs/facts/instructions.md section 2).

    fp4 has item 0 in the low nibble; 32 fp6 items take 192 bits. FormatError where K does not fill whole bytes (fp4: even, fp6: a
    multiple of 4) or a code is out of range.
    """
    fmt = resolve_format(fmt)
    array = check_codes(codes, fmt)
    step = {4: 2, 6: 4}.get(fmt.bits, 1)
    if array.ndim == 0 or array.shape[-1] % step:
        raise FormatError(f"{fmt.name} codes of shape {array.shape} do not fill bytes; the last dimension must be a multiple of {step}")
    array = np.ascontiguousarray(array, dtype=fmt.dtype)
    if fmt.bits >= 8:
        return array.astype(array.dtype.newbyteorder("<"), copy=False).view(np.uint8).copy()
    if fmt.bits == 4:
        values: Array = array[..., 0::2] | (array[..., 1::2] << 4)
        return values
    out = np.empty((*array.shape[:-1], array.shape[-1] // 4 * 3), np.uint8)
    a, b, c, d = (array[..., i::4] for i in range(4))
    out[..., 0::3] = a | (b << 6)
    out[..., 1::3] = (b >> 2) | (c << 4)
    out[..., 2::3] = (c >> 4) | (d << 2)
    return out


def unpack(packed: ArrayLike, fmt: Format | str) -> Array:
    """Codes [..., K] of bytes uint8 [..., K*bits/8], the inverse of `pack`; FormatError where the bytes hold no whole number of items."""
    fmt = resolve_format(fmt)
    data = np.asarray(packed)
    step = {6: 3, 16: 2}.get(fmt.bits, 1)
    if data.dtype != np.uint8 or data.ndim == 0 or data.shape[-1] % step:
        raise FormatError(f"{fmt.name} is unpacked from uint8 with a last dimension that is a multiple of {step}, not from {data.dtype} "
                          f"of shape {data.shape}")
    if fmt.bits >= 8:
        return np.ascontiguousarray(data).view(fmt.dtype.newbyteorder("<")).astype(fmt.dtype)
    out = np.empty((*data.shape[:-1], data.shape[-1] * 8 // fmt.bits), np.uint8)
    if fmt.bits == 4:
        out[..., 0::2] = data & 15
        out[..., 1::2] = data >> 4
        return out
    x, y, z = (data[..., i::3] for i in range(3))
    out[..., 0::4] = x & 63
    out[..., 1::4] = (x >> 6) | ((y & 15) << 2)
    out[..., 2::4] = (y >> 4) | ((z & 3) << 4)
    out[..., 3::4] = z >> 2
    return out


def scale_decode(codes: ArrayLike, dtype: DTypeLike = np.float32) -> Array:
    """2**(code - 127) of e8m0 codes as float32 (2**-127 is subnormal, exact) or float64; 0xFF is NaN ([MX] 5.4.1)."""
    return scale_factors(False, np.dtype(dtype).name)[check_codes(codes, FORMATS["e8m0"])]


def scale_from_f32(values: ArrayLike) -> Array:
    """The e8m0 code that v_cvt_scalef32_* take from an f32 operand: its bits 30:23, sign and mantissa ignored ([I4] 12.11)."""
    bits = np.asarray(values, dtype=np.float32).view(np.uint32)
    return ((bits >> np.uint32(23)) & np.uint32(0xFF)).astype(np.uint8)


def mx_scale(blockmax: ArrayLike, fmt: Format | str) -> Array:
    """e8m0 codes for blocks whose largest magnitudes are `blockmax` (float32 or float64): floor(log2(max)) - emax ([MX] 6.3).

    Clamped to what e8m0 has, codes 0 to 254. A block of zeros gets code 0, one with a NaN or an infinity 0xFF, which makes the
    whole block NaN ([MX] leaves both open: inferred). FormatError for a format that is no block element.
    """
    fmt = resolve_format(fmt)
    if fmt.bits > 8 or fmt.is_scale:
        raise FormatError(f"{fmt.name} is no element format of an MX block; those have 4, 6 or 8 bits")
    largest = np.abs(np.asarray(blockmax, dtype=np.float64))
    exponent = np.frexp(np.where(np.isfinite(largest), largest, 1.0))[1].astype(np.int64) - 1 - fmt.emax
    codes = np.clip(exponent + SCALE_BIAS, 0, SCALE_NAN - 1)
    codes = np.where(largest == 0, 0, np.where(np.isfinite(largest), codes, SCALE_NAN))
    return np.asarray(codes, dtype=np.uint8)


def mx_quantize(
    values: ArrayLike,
    fmt: Format | str,
    rounding: str = "nearest_even",
    block: int = MX_BLOCK,
    saturate: bool | None = None,
    random: ArrayLike | None = None,
) -> tuple[Array, Array]:
    """(codes [..., K], scales uint8 [..., K/block]) of values [..., K]: [MX] 6.3 with the block's scale from `mx_scale`.

    Elements are divided by the scale and rounded once, as `encode` does; values beyond max saturate ([MX] 6.3) unless
    saturate=False. FormatError where K is no multiple of `block`.
    """
    fmt = resolve_format(fmt)
    array = np.asarray(values)
    source, _ = source_array(array)
    if block < 1 or array.ndim == 0 or array.shape[-1] % block:
        raise FormatError(f"values of shape {array.shape} do not divide into blocks of {block} along the last dimension")
    blocks = (*array.shape[:-1], array.shape[-1] // block, block)
    largest = np.abs(source).reshape(blocks).max(axis=-1, initial=0)
    scales = mx_scale(largest, fmt)
    seeds = None if random is None else np.broadcast_to(np.asarray(random), array.shape).reshape(blocks)
    codes = encode(array.reshape(blocks), fmt, rounding, saturate, seeds, scales[..., None])
    return codes.reshape(array.shape), scales


def mx_dequantize(codes: ArrayLike, scales: ArrayLike, fmt: Format | str, dtype: DTypeLike = np.float32) -> Array:
    """Values [..., K] of codes [..., K] and e8m0 scales [..., K/block], element times 2**(scale-127) ([MX] 5.1).

    float64 is exact. float32 rounds a product below its normal range to nearest even and overflows to infinity, as [HIP] says of
    gfx950; a scale of 0xFF makes its block NaN. FormatError where the shapes do not fit.
    """
    array, factors = np.asarray(codes), scale_decode(scales, dtype)
    shapes_fit = array.ndim > 0 and array.ndim == factors.ndim and array.shape[:-1] == factors.shape[:-1]
    if not shapes_fit or (array.shape[-1] % factors.shape[-1] if factors.shape[-1] else array.shape[-1]):
        raise FormatError(f"scales of shape {factors.shape} do not divide codes of shape {array.shape} into blocks")
    values = decode(array, fmt).astype(dtype, copy=False).reshape(*factors.shape, -1) if array.size else np.empty(array.shape, dtype)
    if array.size:
        with np.errstate(all="ignore"):
            values *= factors[..., None]
    return values.reshape(array.shape)
