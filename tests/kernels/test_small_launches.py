"""Launches of one workgroup that mutants are run on: sizes that give a loop every number of steps, and of these the ones that go where
none before them went."""

from __future__ import annotations

from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest

from asmgen.isa.errors import AsmgenError
from asmgen.kernels.registry import family
from asmgen.tools import mutantruns
from asmgen.tools.mutantruns import Runs
from asmgen.tools.running.build import build_kernel
from asmgen.tools.running.smalllaunches import drawn_launches, launches


def test_launches_are_one_workgroup_with_short_and_long_loops() -> None:
    contract = family("gemm-bf16").contract("gfx950")
    found = launches(contract, {})
    assert {launch["k"] for launch in found} >= {64, 256, 320}
    assert {(launch["m"], launch["n"]) for launch in found} == {(128, 128), (128, 96), (127, 95)}  # whole tiles, and cut ones
    assert {(launch["m"], launch["beta"]) for launch in found if "beta" in launch} == {(128, 1.0), (127, 1.0)}
    assert all(contract.grid_of(contract.resolve_run(launch)) == (1, 1, 1) for launch in found)


def test_lengths_that_a_rule_refuses_are_passed_over() -> None:
    """Shuffled weights of 4 bits have 64 columns in 32 bytes, and k is a multiple of 32 elsewhere."""
    build = {"b_order": "shuffled"}
    found = launches(family("gemm-mx").contract("gfx950", build), build)
    assert {launch["k"] % 64 for launch in found} == {0} and len(found) > 2
    # the example's k is two steps, and a persistent build needs three
    persistent = {"persistent": True}
    assert {launch["k"] for launch in launches(family("gemm-fp8").contract("gfx950", persistent), persistent)} == {512, 640}


def drawn(build: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """The first launches that are drawn for a build of attention-forward."""
    contract = family("attention-forward").contract("gfx950", build)
    given = contract.resolve_build(build)
    found = list(islice(drawn_launches(contract, given), number))
    assert all(contract.grid_of(contract.resolve_run({**given, **launch})) == (1, 1, 1) for launch in found)
    assert len({tuple(launch.items()) for launch in found}) == number
    return found


def test_sizes_without_a_step_of_their_own_go_by_the_tile() -> None:
    """A tile of attention-forward has 256 queries and 64 keys a step: any number of steps, whole ones and with a rest, more keys than
    queries and fewer."""
    found = drawn({"causal": True}, 200)
    keys = {launch["sk"] for launch in found if "sk" in launch}
    assert keys == {64 * steps + rest for steps in range(11) for rest in (0, 1, 63)} - {0}
    assert {launch["sq"] for launch in found} == {1, 63, 64, 65, 127, 128, 129, 191, 192, 193, 255, 256}
    assert {launch["sq"] < launch["sk"] for launch in found if "sk" in launch} == {True, False}
    assert {launch.get("softmax_scale", 0.0) > 1 for launch in found} == {True, False}


def test_only_what_the_build_takes_is_drawn() -> None:
    assert not [launch for launch in drawn({}, 50) if "left" in launch or "right" in launch]
    found = drawn({"window": True}, 400)
    assert {launch.get("left", -1) > 0 for launch in found} == {launch.get("right", -1) > 0 for launch in found} == {True, False}


def test_there_may_be_few_launches() -> None:
    """With all sizes given, nothing but what a parameter of two values allows."""
    contract = family("gemm-bf16").contract("gfx950")
    held = SimpleNamespace(parameters=[contract.parameter("alpha"), contract.parameter("beta")],
                           example={"m": 128, "n": 96, "k": 64}, grid_of=contract.grid_of,
                           resolve_run=lambda values, near=True: contract.resolve_run({"m": 128, "n": 96, "k": 64, **values}, near))
    found = list(drawn_launches(held, {}))  # type: ignore[arg-type]
    assert sorted((launch.get("alpha", 1.0), launch.get("beta", 0.0)) for launch in found) == [(1.0, 1.0), (16.0, 0.0), (16.0, 1.0)]


def test_launches_are_kept_that_execute_something_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instruction 7 is executed where k is 64, as in two of the given launches, 8 where it is 384, and 9 nowhere."""
    library = family("gemm-bf16")
    built = build_kernel(library, "gfx950", {})
    waves, runs = 4, 0

    def run(_: Any, __: Any, parameters: dict[str, Any], *___: Any, **____: Any) -> Any:
        nonlocal runs
        runs += 1
        counts = [waves] * len(built.kernel.program.instructions)
        counts[7], counts[8], counts[9] = int(parameters["k"] == 64), 2 * waves * (parameters["k"] == 384), 0
        return SimpleNamespace(passed=True, launches=(SimpleNamespace(result=SimpleNamespace(counts=tuple(counts))),), bank_conflicts=None,
                               wave_instructions=1000)

    monkeypatch.setattr(mutantruns, "run_kernel", run)
    found = Runs(library, built)
    given = len(launches(built.kernel.contract, built.kernel.parameters))
    assert len(list(found.through(None))) == given == len(found.known)
    assert len(list(found.through(7))) == 2 and len(list(found.through(9))) == 0
    assert [known.launch["k"] for known in found.through(8)] == [384]
    assert len(found.known) == given + 1 and runs > given + 30


def test_a_kernel_that_fails_judges_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    library = family("gemm-bf16")
    monkeypatch.setattr(mutantruns, "run_kernel", lambda *_, **__: SimpleNamespace(passed=False))
    with pytest.raises(AsmgenError, match="the unchanged program fails with"):
        next(Runs(library, build_kernel(library, "gfx950", {})).through(None))
