"""Products whose K need not be whole steps: the build parameter `any_k`, and what follows from it for k and for the strides.

A build that takes any k multiplies whole steps in the loop, and after it the columns that are left (`lastcolumns`). Its code for them is
some KiB, with a second copy of the epilogue that overlaps the last step, so a build has it only where a request's k asks for it.
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral

import asmgen as ag
from asmgen.kernels.products.contract import DOTS, ELEMENTS, FEW_ROWS
from asmgen.kernels.products.sides import side

_OTHERS = (ELEMENTS, DOTS, "producer-consumer")
"""Schedules without it: the first two take any k, and the waves of the last end in roles."""


def any_k_parameter(variant: ag.Variant) -> ag.Parameter:
    """The parameter of a variant."""
    serves = variant.schedule not in _OTHERS
    return ag.Parameter("any_k", "build", bool, "take any k: columns after the last whole step are multiplied after the loop. By default "
                        "where a request gives a k of no whole steps (elements and dot-products take any k without)",
                        default=False, choices=(False, True) if serves else (False,))


def any_stride_parameters(variant: ag.Variant) -> tuple[ag.Parameter, ...]:
    """The parameter of variants of a few rows."""
    doc = (f"take any strides of A and B. By default where a request gives one of no whole dwords and at most {FEW_ROWS} rows of A (of B "
           "where D is by columns); for more rows elements serve")
    return (ag.Parameter("any_stride", "build", bool, doc, default=False),) if variant.schedule == DOTS else ()


def takes_any_stride(build: ag.Values) -> bool:
    """Whether rows of A and B may begin at any element, in a schedule of whole dwords."""
    return bool(build.get("any_stride", False))


def columns_kept(build: ag.Values) -> int:
    """The last columns of K, at least so many, that a build which takes any strides loads element by element: the dword of the one before
    them lies in its row whole."""
    return (1 if "dtype" in build else 3) if takes_any_stride(build) else 0


def takes_any_k(build: ag.Values) -> bool:
    """Whether a build takes a K that is no multiple of the tile's depth, by code after the loop."""
    return bool(build.get("any_k", False) or build.get("schedule") == DOTS)


def fitted_k(variant: ag.Variant, parameters: tuple[ag.Parameter, ...], values: ag.Values) -> tuple[ag.Parameter, ...]:
    """The parameters of a variant for a request: a k of no whole steps asks for a build that takes any k."""
    by_name = {one.name: one for one in parameters}
    if "any_stride" in by_name:
        return _fitted_strides(by_name, values)
    any_k, k = by_name["any_k"], by_name["k"]
    if True not in any_k.choices:
        return parameters
    asked = values.get("any_k", isinstance(values.get("k"), Integral) and values["k"] % k.multiple_of != 0)
    if not asked:
        return parameters
    changed = {"any_k": replace(any_k, default=True) if "any_k" not in values else any_k, "k": replace(k, minimum=1, multiple_of=1)}
    return tuple(changed.get(one.name, one) for one in parameters)


def _fitted_strides(by_name: dict[str, ag.Parameter], values: ag.Values) -> tuple[ag.Parameter, ...]:
    """As `fitted_k`: a stride of no whole dwords asks for a build that takes any strides, where rows are few."""
    strides = [by_name[name] for name in ("lda", "ldb", "a_stride_batch", "b_stride_batch")]
    lines = [values.get(one.name, values.get("k") if one.name in ("lda", "ldb") else None) for one in strides]
    odd = any(isinstance(line, Integral) and line % one.multiple_of for line, one in zip(lines, strides, strict=True))
    rows = values.get(side(values, "m"), FEW_ROWS)
    if not values.get("any_stride", odd and isinstance(rows, Integral) and rows <= FEW_ROWS):
        return tuple(by_name.values())
    changed = {one.name: replace(one, minimum=min(one.minimum or 0, 1), multiple_of=1) for one in strides}
    changed["any_stride"] = replace(by_name["any_stride"], default=True)
    return tuple(changed.get(one.name, one) for one in by_name.values())


def bytes_beside(build: ag.Values) -> int:
    """Bytes that a descriptor of rows does not show where some lanes name an offset beyond it."""
    return ag.BEYOND if takes_any_k(build) else 0
