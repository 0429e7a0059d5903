"""norm on the emulator against float64: both kinds, residual, dropout, types, odd columns, strides, rows in 16 lanes to 8 waves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from asmgen.author.contract.contract import ContractError
from asmgen.kernels.registry import family
from asmgen.kernels.rows.reference import kept
from tests.kernels.rows_harness import Case, run, wrong

LIBRARY = family("norm")
ALL = {"residual": True, "dropout": True, "bias": True, "save": "stats"}
CASES: list[Case] = [
    ("gfx950", {"columns": 64, **ALL}, {"rows": 67, "p": 0.5, "seed": 1 << 40 | 5, "offset": 7 << 33 | 1}, "serial"),
    ("gfx950", {"columns": 509, "kind": "rms", "out": "f32", **ALL}, {"rows": 9, "each": 2, "x_stride": 514, "d_stride": 520}, "random:1"),
    ("gfx942", {"columns": 128, "lanes": 16, "dtype": "f16", "out": "f16", "bias": True}, {"rows": 65, "each": 3}, "lockstep"),
    ("gfx942", {"columns": 1001, "access": "element", **ALL}, {"rows": 6, "residual_stride": 1003, "r_stride": 1001}, "random:2"),
    ("gfx950", {"columns": 3000, "rounds": 10, **ALL}, {"rows": 3, "each": 2, "p": 0.25}, "random:3"),
    ("gfx950", {"columns": 6143, "dtype": "f32", "kind": "rms", "bias": True}, {"rows": 2, "each": 2}, "serial"),
    ("gfx942", {"columns": 16384, "residual": True}, {"rows": 2}, "lockstep"),
    ("gfx942", {"columns": 3115, "access": "element", "out": "f16", **ALL}, {"rows": 3, "each": 2}, "random:4"),
    ("gfx950", {"columns": 30001, "access": "element", "out": "f16", **ALL}, {"rows": 2, "each": 2}, "random:1"),
    ("gfx950", {"columns": 32767, "dtype": "f32", **ALL}, {"rows": 2, "each": 2}, "serial"),
    ("gfx950", {"columns": 1001, "out": "fp8", **ALL}, {"rows": 9, "each": 2}, "random:5"),
    ("gfx942", {"columns": 5001, "out": "fp8", "kind": "rms"}, {"rows": 3, "each": 2, "d_stride": 5008}, "serial"),
    ("gfx950", {"columns": 100, "out": "fp8", "dtype": "f32"}, {"rows": 33}, "lockstep"),
    ("gfx950", {"columns": 1, "save": "stats"}, {"rows": 5}, "lockstep"),
    ("gfx950", {"columns": 701, "out": "mxfp4", "layout": "shuffled", **ALL}, {"rows": 35, "each": 3}, "random:2"),
    ("gfx950", {"columns": 4100, "out": "mxfp8", "rounding": "up", "kind": "rms"}, {"rows": 5, "d_stride": 4136, "scale_stride": 131},
     "serial"),
    ("gfx950", {"columns": 1001, **ALL, "save": "mask"}, {"rows": 9, "each": 2, "p": 0.4, "mask_stride": 1008}, "random:3"),
    ("gfx942", {"columns": 157, **ALL, "save": "mask", "kind": "rms", "out": "fp8"}, {"rows": 35, "each": 2, "p": 0.7}, "lockstep"),
    ("gfx942", {"columns": 303, **ALL, "save": "mask", "access": "element"}, {"rows": 6}, "serial"),
]


@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.slow_after_first
def test_right_within_the_bound(case: int) -> None:
    report = run(LIBRARY, CASES[case], seed=case)
    assert not wrong(report), report


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "columns"), [("gfx950", 32767), ("gfx942", 32767)])
def test_the_longest_rows(arch: str, columns: int) -> None:
    report = run(LIBRARY, (arch, {"columns": columns, "bias": True}, {"rows": 2, "each": 2}, "random:4"), seed=1)
    assert not wrong(report), report


def test_the_mask_of_dropout_by_hand() -> None:
    """docs/facts/row_kernels.md section 2, with words of Philox 4x32-7 and -10 for counter 0 and key 0 (docs/facts/draws.md section 1)."""
    bits = {rounds: kept(1, 8, threshold / 65536, 0, 0, rounds) for rounds in (7, 10) for threshold in (0x6627,)}
    # 10 rounds: 6627e8d5 e169c58d bc57ac4c 9b00dbd8, the low half first
    halves = [0xE8D5, 0x6627, 0xC58D, 0xE169, 0xAC4C, 0xBC57, 0xDBD8, 0x9B00]
    np.testing.assert_array_equal(bits[10][0], [half >= 0x6627 for half in halves])
    assert not kept(1, 8, 0x6628 / 65536, 0, 0, 10)[0, 1]


@pytest.mark.parametrize(("values", "sentence"), [
    ({"x_stride": 99}, "x_stride must be at least columns"), ({"x_stride": 101}, "x_stride must be even where access is wide"),
    ({"p": 1.0}, "p must be"), ({"rows": 0}, "rows must be")])
def test_what_is_not_offered_is_refused(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ContractError, match=sentence):
        LIBRARY.contract("gfx950", {"columns": 100}).resolve_run({"columns": 100, "rows": 2, **values})
