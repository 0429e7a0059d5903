"""Data for gemm-bf16 with its float64 reference."""

from __future__ import annotations

import numpy as np

import asmgen as ag
from asmgen.kernels.products.odd import put_odd_pairs
from asmgen.kernels.products.problem import TYPES, with_result
from asmgen.kernels.products.sharedsums import sums_of_launch
from asmgen.kernels.products.stored import operands_of, stored
from asmgen.kernels.products.sums import Sums

_DEPTH = 16  # products along K of the shortest matrix instruction of the variants: v_mfma_f32_16x16x16 of gfx942


def make_problem(p: ag.Values, seed: int, nonfinite: bool) -> ag.Problem:
    """Random normal A, B, C and bias with some odd numbers (products/odd.py); D is full of canaries."""
    random = np.random.default_rng(seed)
    taken, _ = TYPES[p["dtype"]]
    a, b = (stored(p, name, rows, p["k"], taken, random.standard_normal) for name, rows in (("a", p["m"]), ("b", p["n"])))
    exact = put_odd_pairs(random, a, b, p["k"], nonfinite)

    def product(number: int) -> Sums:
        left, right = (one.matrices[number].astype(np.float64) for one in (a, b))
        return sums_of_launch(p, number, left, right, _DEPTH)

    return with_result(p, random, operands_of(p, a, b), product, nonfinite, exact)
