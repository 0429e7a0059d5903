"""The launches of the HIP tests once more, of what clang makes of their sources with -O0, -O1 and -O3 (-O2 is what those tests run).

Compilers leave undefined what cannot matter: padding, dropped high words, lanes that are off, spilled slots that nobody reads again.
Whoever launches such code must hear of no error. Results are compared as those tests do it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from inspect import signature
from types import ModuleType
from typing import Any

import pytest

from tests.clang_objects import ARCHS, needs_clang
from tests.emulator import test_hip_kernels, test_hip_kernels_float, test_hip_kernels_matrix
from tests.hip_launch import Array, run_hip

pytestmark = [needs_clang, pytest.mark.needs_objdump, pytest.mark.slow]
OTHERS = (1, 3)
MATRIX_EVERY = 10
"""Matrix launches differ in little but the instruction."""


def parameters(function: Callable[..., None]) -> list[dict[str, Any]]:
    """All sets of arguments that the test's own marks give it, without `arch` and `level`."""
    sets: list[dict[str, Any]] = [{}]
    for mark in getattr(function, "pytestmark", ()):
        if mark.name == "parametrize" and mark.args[0] not in ("arch", "level"):
            names = mark.args[0].split(",")
            values = [value if len(names) > 1 else (value,) for value in mark.args[1]]
            sets = [old | dict(zip(names, value, strict=True)) for old in sets for value in values]
    return sets


def launches(module: ModuleType) -> Iterator[tuple[Callable[..., None], dict[str, Any]]]:
    """The module's tests that launch at one level, with their arguments but `arch`, where that is a mark of the module."""
    for name, function in vars(module).items():
        if name.startswith("test_") and "levels" not in name:
            for given in parameters(function):
                yield function, given


def sample() -> Iterator[Any]:
    """Every launch with -O0 on one architecture, the architectures taking turns, and with -O1 or -O3 on the other."""
    cases = [*launches(test_hip_kernels), *launches(test_hip_kernels_float), *list(launches(test_hip_kernels_matrix))[::MATRIX_EVERY]]
    for number, (function, given) in enumerate(cases):
        for turn, level in enumerate((0, OTHERS[number // 2 % 2])):
            arch = given.get("arch", ARCHS[(number + turn) % 2])
            words = [str(value) for value in ({"arch": arch} | given).values()]
            yield pytest.param(function, {"arch": arch} | given, level, id="-".join([function.__name__, *words, f"O{level}"]))


@pytest.mark.parametrize("function,given,level", list(sample()))
def test_no_errors(function: Callable[..., None], given: dict[str, Any], level: int, monkeypatch: pytest.MonkeyPatch) -> None:

    def run_at_level(source: str, arch: str, kernel: str, grid: int | Sequence[int], block: int, args: Sequence[Any],
                     **others: Any) -> list[Array]:
        there = others | {"level": level, "orders": ("lockstep",)}
        # -O0 restores spilled registers that were never written: a warning is true there.
        return run_hip(source, arch, kernel, grid, block, args, **there, warnings=frozenset({"uninitialised-read"} if level == 0 else ()))

    monkeypatch.setitem(function.__globals__, "run_hip", run_at_level)
    function(**given, **{"level": level} if "level" in signature(function).parameters else {})
