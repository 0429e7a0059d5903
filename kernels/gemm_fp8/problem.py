"""Data for gemm-fp8 with its float64 reference, which takes the quantised inputs."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import asmgen as ag
from asmgen.kernels.gemm_fp8.operands import BLOCK
from asmgen.kernels.products.odd import put_odd_pairs
from asmgen.kernels.products.problem import with_result
from asmgen.kernels.products.sharedsums import sums_of_launch
from asmgen.kernels.products.stored import operands_of, stored
from asmgen.kernels.products.sums import Sums

_ELEMENTS: dict[tuple[str, str], Any] = {
    ("ocp", "e4m3"): ml_dtypes.float8_e4m3fn, ("ocp", "e5m2"): ml_dtypes.float8_e5m2,
    ("fnuz", "e4m3"): ml_dtypes.float8_e4m3fnuz, ("fnuz", "e5m2"): ml_dtypes.float8_e5m2fnuz,
}
_DEPTHS = {"ocp": 128, "fnuz": 32}
"""Products along K of a matrix instruction: v_mfma_f32_16x16x128_f8f6f4 of gfx950, v_mfma_f32_16x16x32 of gfx942."""


def make_problem(p: ag.Values, seed: int, nonfinite: bool) -> ag.Problem:
    """Random normal A and B with some odd numbers (products/odd.py), C and bias; D is full of canaries. Scales are no powers of two, and
    some are negative."""
    random = np.random.default_rng(seed)
    m, n, k = p["m"], p["n"], p["k"]
    a, b = (stored(p, name, rows, k, _ELEMENTS[p["encoding"], p[f"{name}_dtype"]], random.standard_normal)
            for name, rows in (("a", m), ("b", n)))
    put_odd_pairs(random, a, b, k, nonfinite)
    steps = -(-k // BLOCK)
    shapes = {"tensor": ((1,), (1,)), "row": ((m,), (n,)), "block": ((steps, m), (-(-n // BLOCK), steps))}[p["scales"]]
    count = 1 if p["scales"] == "tensor" else p["batch"]
    a_scale, b_scale = (_scales(random, (count, *shape)) for shape in shapes)

    def product(number: int) -> Sums:
        of_a, of_b = (one[number % count].astype(np.float64) for one in (a_scale, b_scale))
        if p["scales"] == "block":
            of_a, of_b = np.repeat(of_a.T, BLOCK, 1)[:, :k], np.repeat(np.repeat(of_b, BLOCK, 0)[:n], BLOCK, 1)[:, :k]
        else:
            of_a, of_b = of_a[:, None], of_b[:, None]
        left, right = (one.matrices[number].astype(np.float64) for one in (a, b))
        return sums_of_launch(p, number, left * of_a, right * of_b, _DEPTHS[p["encoding"]])

    given = {"a_scale": a_scale, "b_scale": b_scale}
    given = {name: one[0] for name, one in given.items()} if count == 1 else given
    return with_result(p, random, operands_of(p, a, b) | given, product, nonfinite)


def _scales(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    scales: np.ndarray[Any, Any] = random.uniform(0.25, 1.75, shape) * random.choice([1.0, -1.0], shape, p=[0.75, 0.25])
    return scales.astype(np.float32)
