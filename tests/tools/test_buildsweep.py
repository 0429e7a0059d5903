"""`buildsweep`: which combinations it takes, what it says of those that do not build, and a slice of it."""

from __future__ import annotations

import random
from typing import Any

import pytest

from asmgen.author.contract.contract import ContractError, Parameter
from asmgen.kernels.registry import family
from asmgen.tools import buildsweep
from asmgen.tools.buildsweep import Combinations, fault, refusal, refusal_fault, values_of

pytestmark = pytest.mark.needs_objdump

GEMM = family("gemm-bf16")
PERSISTENT: dict[str, Any] = {"tile": "256x256x64", "schedule": "ping-pong", "persistent": True}


def combinations_of(name: str, number: int = 0, arch: str = "gfx950") -> Combinations:
    return Combinations(family(name), family(name).variants(arch)[number], random.Random(1))


def test_numbers_take_their_limits_and_choices_all_values() -> None:
    assert values_of(Parameter("split", "build", int, "", default=2, minimum=1, maximum=63, multiple_of=1, tried=(3,))) == (2, 3, 1, 63)
    assert values_of(Parameter("rows", "build", int, "", default=8, minimum=4, maximum=31, multiple_of=4)) == (8, 4, 28)
    assert values_of(Parameter("on", "build", bool, "", default=True)) == (True, False)
    assert values_of(Parameter("kind", "build", str, "", default="b", choices=("a", "b"))) == ("b", "a")


def test_every_pair_is_in_a_combination_or_among_the_refused() -> None:
    """Of softmax, whose contract refuses some; all are accepted."""
    found = combinations_of("softmax")
    builds = list(found.covering())
    covered = [set(build.items()) for build in [*builds, *found.refused]]
    names = [name for name, values in found.values.items() if len(values) > 1]
    for at, one in enumerate(names):
        for other in names[at + 1:]:
            for mine in found.values[one]:
                for its in found.values[other]:
                    assert any({(one, mine), (other, its)} <= items for items in covered), (one, mine, other, its)
    assert all(found.accepted(build) for build in builds) and not any(found.accepted(build) for build in found.refused)
    assert found.refused and len(builds) < 40


def test_drawn_numbers_lie_in_their_ranges() -> None:
    library = family("rope")
    builds = list(combinations_of("rope").drawn(12))
    assert all(refusal(library, library.variants("gfx950")[0], build) == "" for build in builds)
    assert len({build["d"] for build in builds}) > 2 and all(build["d"] % 4 == 0 for build in builds)


def test_faults_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that fails, one that lint finds wrong, and a refusal that names nothing."""
    def fails(*_: Any) -> None:
        raise KeyError("s9")

    monkeypatch.setattr(buildsweep, "lint_errors", lambda built: ["a race"])
    assert fault(family("01-vector-add"), "gfx950", {}) == "lint: a race"
    monkeypatch.setattr(buildsweep, "build_kernel", fails)
    assert fault(GEMM, "gfx950", {}).startswith("internal error, which no input should cause: KeyError")
    refused = PERSISTENT | {"split_k": 2, "reduce": "atomic"}
    told, near = refusal_fault(GEMM, "gfx950", refused)
    assert told == "" and {name: near[name] for name in refused} in [
        refused | change for change in ({"persistent": False}, {"split_k": 1}, {"reduce": "ordered"})]
    monkeypatch.setattr(type(GEMM), "nearest", lambda *_: {**near, "bias": "row"})
    assert refusal_fault(GEMM, "gfx950", refused | {"bias": "none"})[0].endswith("which does not name bias=row")


def test_a_variant_that_takes_all_is_chosen_before_one_that_does_not() -> None:
    """The first variants of the schedule refuse A by columns (192 rows), and are not asked for by name."""
    asked = {"schedule": "ping-pong", "a_layout": "column"}
    GEMM.contract("gfx950", asked).resolve_build(asked)
    with pytest.raises(ContractError, match="would work"):
        GEMM.contract("gfx950", asked | {"tile": "192x256x64"}).resolve_build(asked | {"tile": "192x256x64"})


@pytest.mark.slow
def test_a_last_step_without_barriers_shares_no_block_with_the_loop() -> None:
    """Lint takes every way back from a shared block for possible: from the last step none has the barriers of the loop."""
    assert fault(family("attention-backward"), "gfx942", {"tile": "16x192", "dq": "ordered", "window": True}) == ""


@pytest.mark.slow
def test_a_slice_of_the_sweep(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        buildsweep.main(["softmax", "--arch", "gfx950", "--most", "1", "--more", "1", "--part", "1/3"])
    assert ended.value.code == 0 and ", 0 faults" in capsys.readouterr().out


@pytest.mark.parametrize("part", ["x", "2/2", "1/", "0/0", "-1/2"])
def test_what_is_no_part_is_refused(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        buildsweep.main(["softmax", "--part", part])
    assert ended.value.code == 2 and f"'{part}' is no part" in capsys.readouterr().err
