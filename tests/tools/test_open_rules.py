"""Mutants of which only the hardware could say whether they change meaning: the sources disagree on the rule that they break."""

from __future__ import annotations

from dataclasses import replace

import pytest

from asmgen.checks.lint.facts import facts_of_code_object
from asmgen.checks.lint.programlint import lint_program
from asmgen.checks.mutants.mutants import mutants
from asmgen.codeobject.load import CodeObject
from asmgen.kernels.registry import family
from asmgen.tools import openrules
from asmgen.tools.mutantruns import Runs
from asmgen.tools.openrules import open_rule, taken_late
from tests.tools.test_prove import parsed_build


def test_a_wait_state_before_a_load_into_lds_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """That after a write of M0 is, and the sentence names both sources. That before a read of a lane is asked for by both. One whose
    launches are right though the load takes M0 late stays unknown."""
    library = family("gemm-bf16")
    built = parsed_build(library.name, "gfx950", "tile=64x64x64", "schedule=interleave")
    lane, load, *_ = [mutant for mutant in mutants(built.kernel.program) if mutant.kind == "nop"]
    runs = Runs(library, built, built.kernel)
    said = open_rule(library, built, load, runs) or ""
    assert "salu-m0-buffer" in said and "ISA text" in said and "results are wrong with {'m': 64" in said
    assert open_rule(library, built, lane, runs) is None
    monkeypatch.setattr(runs, "through", lambda position: iter(()))
    assert "results are wrong with" in (open_rule(library, built, load, runs) or ""), "a launch with a longer loop"
    facts = facts_of_code_object(CodeObject.load(built.code_object))[built.kernel.resources.name]
    (finding,) = lint_program(load.program, "", facts, notes=False, doubts=True)
    late = taken_late(load.program, [finding])
    assert late is not None and finding.producer is not None and finding.consumer is not None
    before, after = (next(number for number, one in enumerate(late.instructions) if one is what)
                     for what in (finding.consumer, finding.producer))
    assert after == before + 1 == finding.position
    assert taken_late(load.program, [replace(finding, producer=late.instructions[before - 1])]) is None
    monkeypatch.setattr(runs, "through", lambda position: iter(runs.known))
    monkeypatch.setattr(openrules, "longer_loops", lambda *_: iter([{"m": 8, "n": 16, "k": 64}]))
    monkeypatch.setattr(openrules, "taken_late", lambda *_: runs.program)
    assert open_rule(library, built, load, runs) is None
