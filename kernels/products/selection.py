"""Which variant of a product serves a request that names none."""

from __future__ import annotations

from collections.abc import Sequence

import asmgen as ag
from asmgen.kernels.products.contract import ELEMENTS

_SIZES = ("m", "n", "k")


def first_serving(library: ag.Family, candidates: Sequence[ag.Variant], values: ag.Values) -> ag.Variant:
    """The first variant whose contract takes the values; those that load element by element come last. Without all sizes, or where none
    serves, the first one, whose contract then says what is wrong."""
    usual = [one for one in candidates if one.schedule != ELEMENTS]
    ordered = usual + [one for one in candidates if one.schedule == ELEMENTS]
    if all(name in values for name in _SIZES):
        for variant in ordered:
            try:
                library.contract_of(variant, values).resolve_run(values)
            except ag.ContractError:
                continue
            return variant
    return ordered[0]
