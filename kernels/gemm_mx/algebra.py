"""D of gemm-mx in exact residues: elements times the powers of two that their blocks' scales are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import asmgen as ag
from asmgen.kernels.gemm_mx.formats import BLOCK, GROUP_COLUMNS
from asmgen.kernels.gemm_mx.problem import BIAS, by_rows
from asmgen.kernels.products.algebra import matrices_of, product


def scaled_product(p: ag.Values, inputs: Any) -> Mapping[str, Any]:
    """D of packed elements; scales are numbers of the run. A side that the kernel quantises has none: an element and the power of two by
    which it is divided and multiplied are the element."""
    factors = []
    for name, rows in (("a", p["m"]), ("b", p["n"])):
        drawn = inputs.packed(name, p[f"{name}_dtype"])
        matrices = matrices_of(p["batch"], drawn, p[f"{name}_stride_batch"], p[f"ld{name}"])
        matrices = [one[:rows, :p["k"]] for one in matrices]
        if f"{name}_scale" in inputs.arguments:
            scales = _scales(p, name, inputs.arguments[f"{name}_scale"].astype(int))
            matrices = [elements.scaled(np.repeat(of[:rows, :-(-p["k"] // BLOCK)] - BIAS, BLOCK, 1)[:, :p["k"]])
                        for elements, of in zip(matrices, scales, strict=True)]
        factors.append(matrices)
    return product(p, inputs, *factors)


def _scales(p: ag.Values, name: str, array: Any) -> list[Any]:
    """Those of A or B, by rows."""
    by_groups, columns = p["scale_order"] == "shuffled", p[f"lds{name}"]
    columns = -(-columns // GROUP_COLUMNS) * GROUP_COLUMNS if by_groups else columns
    found = matrices_of(p["batch"], array, p[f"{name}_scale_stride_batch"], columns)
    return [by_rows(one) for one in found] if by_groups else found
