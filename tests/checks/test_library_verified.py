"""Every variant of every kernel of the library: verification misses no wait, barrier or wait state in its code, and no erratum hits it."""

from __future__ import annotations

import pytest

from asmgen.author.contract.contract import Value
from asmgen.author.contract.variant import Variant
from asmgen.kernels.registry import family, names
from tests.checks.test_foreign_waits import LIBRARY, nothing_is_missing


def settled(name: str, variant: Variant, build: dict[str, object]) -> tuple[str, Variant, frozenset[tuple[str, Value]]]:
    """What a build is, however it was asked for."""
    return name, variant, frozenset(family(name).contract_of(variant, build).resolve_build(build).items())


THERE = {settled(name, family(name).select(arch, build), build) for name, arch, build in LIBRARY}
"""Builds that test_foreign_waits.py makes and judges by the same rules."""
VARIANTS = [(name, variant) for name in names() for arch in family(name).archs for variant in family(name).variants(arch)
            if settled(name, variant, {}) not in THERE]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "variant"), VARIANTS, ids=[f"{name}-{variant.arch}-{number}" for number, (name, variant) in
                                                             enumerate(VARIANTS)])
def test_nothing_is_missing(name: str, variant: Variant) -> None:
    library = family(name)
    nothing_is_missing(library.build(variant.arch, library.contract_of(variant).resolve_build({})).program)
