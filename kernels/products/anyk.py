"""Products whose K need not be whole steps: the build parameter `any_k`, and what follows from it for k and for the strides.

A build that takes any k multiplies whole steps in the loop, and after it the columns that are left (`lastcolumns`). Its code for them is
some KiB, with a second copy of the epilogue that overlaps the last step, so a build has it only where a request's k asks for it.
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral

import asmgen as ag
from asmgen.kernels.products.contract import DOTS, ELEMENTS

_OTHERS = (ELEMENTS, DOTS, "producer-consumer")
"""Schedules without it: the first two take any k, and the waves of the last end in roles."""


def any_k_parameter(variant: ag.Variant) -> ag.Parameter:
    """The parameter of a variant."""
    serves = variant.schedule not in _OTHERS and "scales" not in dict(variant.further)
    return ag.Parameter("any_k", "build", bool, "take any k: columns after the last whole step are multiplied after the loop. By default "
                        "where a request gives a k of no whole steps (elements and dot-products take any k without)",
                        default=False, choices=(False, True) if serves else (False,))


def takes_any_k(build: ag.Values) -> bool:
    """Whether a build takes a K that is no multiple of the tile's depth, by code after the loop."""
    return bool(build.get("any_k", False) or build.get("schedule") == DOTS)


def fitted_k(variant: ag.Variant, parameters: tuple[ag.Parameter, ...], values: ag.Values) -> tuple[ag.Parameter, ...]:
    """The parameters of a variant for a request: a k of no whole steps asks for a build that takes any k."""
    by_name = {one.name: one for one in parameters}
    any_k, k = by_name["any_k"], by_name["k"]
    if True not in any_k.choices:
        return parameters
    asked = values.get("any_k", isinstance(values.get("k"), Integral) and values["k"] % k.multiple_of != 0)
    if not asked:
        return parameters
    changed = {"any_k": replace(any_k, default=True) if "any_k" not in values else any_k, "k": replace(k, minimum=1, multiple_of=1)}
    return tuple(changed.get(one.name, one) for one in parameters)


def bytes_beside(build: ag.Values) -> int:
    """Bytes that a descriptor of rows does not show where some lanes name an offset beyond it."""
    return ag.BEYOND if takes_any_k(build) else 0
