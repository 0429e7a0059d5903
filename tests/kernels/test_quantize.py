"""quantize on the emulator, byte by byte: types, groups, odd columns and rows, strides, rows in 16 lanes to 8 waves."""

from __future__ import annotations

from typing import Any

import pytest

from asmgen.author.contract.contract import ContractError
from asmgen.kernels.registry import family
from tests.kernels.rows_harness import Case, run, wrong

LIBRARY = family("quantize")
CASES: list[Case] = [
    ("gfx950", {"columns": 61}, {"rows": 67, "each": 2}, "serial"),
    ("gfx942", {"columns": 201, "to": "bf8", "from": "f16"}, {"rows": 33, "x_stride": 204}, "random:1"),
    ("gfx950", {"columns": 1001, "to": "int8", "from": "f32"}, {"rows": 9, "each": 2, "d_stride": 1008}, "random:2"),
    ("gfx942", {"columns": 3000}, {"rows": 3, "each": 2}, "lockstep"),
    ("gfx950", {"columns": 1000, "group": "128", "to": "bf8"}, {"rows": 9, "each": 3, "scale_stride": 9}, "random:3"),
    ("gfx942", {"columns": 5001, "group": "128"}, {"rows": 3, "each": 2}, "serial"),
    ("gfx950", {"columns": 100, "group": "tensor"}, {"rows": 37, "each": 2}, "random:4"),
    ("gfx942", {"columns": 515, "group": "tensor", "to": "int8"}, {"rows": 5}, "lockstep"),
    ("gfx942", {"columns": 300, "group": "tensor", "from": "f32", "to": "bf8"}, {"rows": 5}, "lockstep"),
    ("gfx950", {"columns": 1}, {"rows": 3}, "lockstep"),
    ("gfx942", {"columns": 700, "smooth": True, "from": "f16"}, {"rows": 5, "each": 2}, "random:5"),
    ("gfx950", {"columns": 17000, "to": "mxfp4", "smooth": True}, {"rows": 2}, "random:5"),
    ("gfx950", {"columns": 1000, "to": "mxfp4", "layout": "shuffled"}, {"rows": 67, "each": 3}, "random:6"),
    ("gfx950", {"columns": 5001, "to": "mxfp6", "rounding": "up"}, {"rows": 3, "each": 2, "scale_stride": 160}, "serial"),
    ("gfx950", {"columns": 600, "to": "mxbf6", "rounding": "floor", "layout": "shuffled", "from": "f16"}, {"rows": 9}, "lockstep"),
    ("gfx950", {"columns": 3000, "to": "mxfp8", "from": "f32"}, {"rows": 3, "d_stride": 3012, "each": 2}, "random:7"),
    ("gfx950", {"columns": 1184, "to": "mxfp4", "layout": "shuffled", "columnwise": True}, {"rows": 100, "each": 3, "x_stride": 1200},
     "lockstep"),
    ("gfx950", {"columns": 16416, "to": "mxfp8", "order": "shuffled", "layout": "shuffled"}, {"rows": 16, "each": 2, "d_stride": 16448},
     "serial"),
    ("gfx950", {"columns": 128, "to": "mxfp4", "order": "shuffled"}, {"rows": 21}, "random:9"),
    ("gfx950", {"columns": 64, "to": "mxbf6", "rounding": "up", "columnwise": True, "from": "f32"},
     {"rows": 301, "d_t_stride": 248, "scale_t_stride": 11}, "serial"),
    ("gfx950", {"columns": 100, "to": "mxbf8", "rounding": "up", "layout": "shuffled", "smooth": True}, {"rows": 37}, "serial"),
    ("gfx950", {"columns": 96, "group": "tensor", "columnwise": True}, {"rows": 45, "d_t_stride": 68}, "lockstep"),
    ("gfx942", {"columns": 288, "to": "int8", "group": "128", "columnwise": True, "from": "f32"},
     {"rows": 300, "each": 2, "x_stride": 300, "scale_t_stride": 5}, "random:5"),
]


@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.slow_after_first
def test_exact_bytes_and_scales(case: int) -> None:
    report = run(LIBRARY, CASES[case], seed=case)
    assert not wrong(report), report


@pytest.mark.parametrize(("values", "sentence"), [
    ({"columns": 100, "lanes": 16, "group": "128"}, "group"), ({"columns": 100, "to": "fp16"}, "to"),
    ({"columns": 100, "to": "mxfp4", "group": "token"}, "group must be 32"),
    ({"columns": 100, "layout": "shuffled"}, "layout plain but for MX"),
    ({"columns": 128, "columnwise": True, "to": "fp8"}, "whose group is not token"),
    ({"columns": 100, "columnwise": True, "to": "mxfp4"}, "columns must be a multiple of 32")])
def test_what_is_not_offered_is_refused(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ContractError, match=sentence):
        LIBRARY.contract("gfx950", values).resolve_build(values)
