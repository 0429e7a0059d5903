"""D of gemm-mx in exact residues: elements times the powers of two that their blocks' scales are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import asmgen as ag
from asmgen.kernels.gemm_mx.formats import BLOCK
from asmgen.kernels.gemm_mx.problem import BIAS, by_rows
from asmgen.kernels.products.algebra import product


def scaled_product(p: ag.Values, inputs: Any) -> Mapping[str, Any]:
    """D of packed elements; scales are numbers of the run."""
    factors = []
    for name, rows in (("a", p["m"]), ("b", p["n"])):
        elements = inputs.packed(name, p[f"{name}_dtype"])[:rows, :p["k"]]
        if p["scales"] != "none":
            scales = inputs.arguments[f"{name}_scale"].astype(int)
            scales = by_rows(scales) if p["scale_order"] == "shuffled" else scales
            elements = elements.scaled(np.repeat(scales[:rows, :-(-p["k"] // BLOCK)] - BIAS, BLOCK, 1)[:, :p["k"]])
        factors.append(elements)
    return product(p, inputs, *factors)
