"""Every variant of every kernel of the library: verification misses no wait, barrier or wait state in its code, and no erratum hits it."""

from __future__ import annotations

import pytest

from asmgen.author.contract.variant import Variant
from asmgen.checks.waits.verify import verify
from asmgen.checks.waitstates import passes
from asmgen.isa.errata import odd_low_reads
from asmgen.kernels.registry import family, names

VARIANTS = [(name, variant) for name in names() for arch in family(name).archs for variant in family(name).variants(arch)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "variant"), VARIANTS, ids=[f"{name}-{variant.arch}-{number}" for number, (name, variant) in
                                                             enumerate(VARIANTS)])
def test_nothing_is_missing(name: str, variant: Variant) -> None:
    library = family(name)
    program = library.build(variant.arch, library.contract_of(variant).resolve_build({})).program
    assert verify(program, notes=False) == [] and list(passes.verify(program)) == []
    assert not any(odd_low_reads(program.arch, one.name, one.operands, one.modifiers) for one in program.instructions)
