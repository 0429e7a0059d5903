"""The numbered examples: short, right on odd shapes, without bank conflicts, and their text is reviewed (tests/golden).

After a change that is meant: `python -m pytest tests/kernels/test_examples.py --rewrite-golden`, then read the diff.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

import asmgen as ag
from asmgen.kernels.registry import family, names
from asmgen.tools.running.build import build_kernel
from asmgen.tools.running.runner import run_kernel

GOLDEN = Path(__file__).parents[1] / "golden"
EXAMPLES = [name for name in names() if name[:2].isdigit()]
BUILDS = [(name, arch) for name in EXAMPLES for arch in family(name).archs]
SHAPES: dict[str, list[dict[str, int]]] = {
    "01-vector-add": [{}, {"n": 1}, {"n": 256}, {"n": 257}, {"n": 512}, {"n": 1537}],
    "02-row-sum": [{}, {"m": 1, "n": 1}, {"m": 3, "n": 64}, {"m": 2, "n": 65}, {"m": 7, "n": 1000}],
    "03-transpose": [{}, {"m": 64, "n": 192}, {"m": 192, "n": 128}],
    "04-mfma-tile": [{}],
}


def test_there_are_four_for_both_architectures() -> None:
    assert [name[:2] for name in EXAMPLES] == ["01", "02", "03", "04"]
    assert all(set(family(name).archs) == {"gfx942", "gfx950"} for name in EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_at_most_60_lines(name: str) -> None:
    file = inspect.getsourcefile(family(name).problem)
    assert file is not None and len(Path(file).read_text().splitlines()) <= 60


@pytest.mark.parametrize(("name", "arch"), BUILDS)
def test_the_text_is_the_golden_one(name: str, arch: str, request: pytest.FixtureRequest) -> None:
    kernel = family(name).build(arch)
    golden = GOLDEN / f"{kernel.name}.s"
    if request.config.getoption("--rewrite-golden"):
        golden.write_text(kernel.text())
    assert kernel.text().splitlines() == golden.read_text().splitlines()


def test_every_golden_text_has_its_kernel() -> None:
    assert sorted(path.name for path in GOLDEN.iterdir()) == sorted(f"{family(name).build(arch).name}.s" for name, arch in BUILDS)


@pytest.mark.needs_objdump
@pytest.mark.parametrize(("name", "arch"), BUILDS)
def test_it_runs_on_odd_shapes_without_findings_and_conflicts(name: str, arch: str) -> None:
    found = family(name)
    built = build_kernel(found, arch, {})
    for number, shape in enumerate(SHAPES[name]):
        report = run_kernel(found, built, built.kernel.contract.resolve_run(shape), "emulator", seed=number)
        assert report.passed and report.findings == () and report.bank_conflicts == 0, (shape, report)


@pytest.mark.parametrize(("loosened", "message"), [({0: 3}, "reads v4 while buffer_load"), ({1: 2}, "reads v5 while buffer_load")])
def test_verification_refuses_a_wait_of_the_first_example_that_is_too_loose(
    monkeypatch: pytest.MonkeyPatch, loosened: dict[int, int], message: str
) -> None:
    """At the line that reads too early; the example as it stands passes."""
    asked: list[int] = []

    def s_waitcnt(self: ag.KernelBuilder, **counts: Any) -> None:
        if "vmcnt" in counts:
            counts["vmcnt"] = loosened.get(len(asked), counts["vmcnt"])
            asked.append(counts["vmcnt"])
        self.emit("s_waitcnt", **counts)

    family("01-vector-add").build("gfx950")
    monkeypatch.setattr(ag.KernelBuilder, "s_waitcnt", s_waitcnt, raising=False)
    with pytest.raises(ag.AsmgenError) as caught:
        family("01-vector-add").build("gfx950")
    assert message in caught.value.sentence and "01_vector_add.py" in caught.value.where
    assert asked == [loosened.get(number, 2 - number) for number in range(2)]
