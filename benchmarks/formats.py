"""Throughput of the number formats, in MB/s of input bytes on one core: `python -m benchmarks.formats [megabytes]`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from asmgen.isa.formats import FORMATS, Format, decode, encode, mx_dequantize, mx_quantize, pack, unpack

Array = NDArray[Any]


def rate(call: Callable[[], object], input_bytes: int) -> float:
    """The best of three runs, after one that fills the tables."""
    call()
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return input_bytes / best / 1e6


def rates(fmt: Format, values: Array, seeds: Array) -> dict[str, float]:
    """MB/s of every operation that the format has, by column title."""
    half, double = values.astype(ml_dtypes.bfloat16), values.astype(np.float64)
    codes = encode(values, fmt)
    packed = pack(codes, fmt)
    found = {
        "encode": rate(lambda: encode(values, fmt), values.nbytes),
        "bf16 in": rate(lambda: encode(half, fmt), half.nbytes),
        "f64 in": rate(lambda: encode(double, fmt), double.nbytes),
        "stoch.": rate(lambda: encode(values, fmt, "stochastic", random=seeds), values.nbytes),
        "decode": rate(lambda: decode(codes, fmt), codes.nbytes),
        "pack": rate(lambda: pack(codes, fmt), codes.nbytes),
        "unpack": rate(lambda: unpack(packed, fmt), packed.nbytes),
    }
    if fmt.bits <= 8:
        quantised, scales = mx_quantize(values, fmt)
        found["quant."] = rate(lambda: mx_quantize(values, fmt), values.nbytes)
        found["q. sto."] = rate(lambda: mx_quantize(values, fmt, "stochastic", random=seeds), values.nbytes)
        found["dequant"] = rate(lambda: mx_dequantize(quantised, scales, fmt), quantised.nbytes + scales.nbytes)
    return found


def main(megabytes: int = 64, formats: int | None = None) -> None:
    """Print one line per format (the first `formats` of them); sizes are those of the arrays handed to the functions."""
    rng = np.random.default_rng(1)
    values = rng.standard_normal((max(1, megabytes * 250_000 // 32), 32)).astype(np.float32)
    seeds = rng.integers(0, 1 << 32, values.shape, dtype=np.uint32)
    titles: list[str] = []
    for fmt in list(FORMATS.values())[:formats]:
        if fmt.is_scale:
            continue
        found = rates(fmt, values, seeds)
        if not titles:
            titles = list(found)
            print("MB/s of input\n" + "format".ljust(9) + "".join(title.rjust(9) for title in titles))
        print(fmt.name.ljust(9) + "".join(f"{found[title]:9.0f}" if title in found else "-".rjust(9) for title in titles))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
