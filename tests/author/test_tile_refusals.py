"""What the hardware lacks, or what does not fit, is refused at the author's line, with the reason and the nearest choice."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from asmgen.author.ops.arithmetic import mma
from asmgen.author.ops.elementwise import abs_, exp2, mul
from asmgen.author.ops.movement import fill, read
from asmgen.author.ops.refill import refill
from asmgen.author.tiles.fragments import mfma
from asmgen.author.tiles.swizzles import DmaFill
from asmgen.author.tiles.tiles import Tile
from asmgen.author.tiles.transposing import TransposedRead
from asmgen.author.tiles.views import with_dtype
from asmgen.isa.errors import AsmgenError
from tests.author.test_tile_memory import matrix
from tests.tile_harness import TileRun

M8 = "f32_32x32x8_bf16"


def tile(run: TileRun, dtype: str = "f32", rows: int = 32, name: str = "x") -> Tile:
    return run.tile(name, (rows, 32), with_dtype(mfma(M8, run.arch).d, dtype))


def filled(run: TileRun) -> None:
    row = run.k.registers.sgprs(1, "row")
    run.k.s_mov_b32(row, 0)
    fill(run.k, run.k.shared("V", "bf16", 32, 64)[()], matrix(run, np.zeros((64, 64)), "bf16", 64, 64).rows(row, 64).k())


def refilled(run: TileRun) -> None:
    row = run.k.registers.sgprs(1, "row")
    refill(run.k, run.k.shared("V", "bf16", 64, 64)[()], matrix(run, np.zeros((64, 64)), "bf16", 64, 64).rows(row, 64), None)


def product(run: TileRun) -> None:
    M = mfma(M8, run.arch)
    mma(run.k, tile(run, "bf16"), run.tile("A", (32, 8), M.a), run.tile("B", (32, 8), M.b))


CASES: list[tuple[str, Callable[[TileRun], object], str]] = [
    ("gfx942", lambda run: run.k.matrix_shape("f32_16x16x32_bf16"), "only on gfx950; gfx942 has v_mfma_f32_16x16x16_bf16"),
    ("gfx942", lambda run: run.k.matrix_shape("v_mfma_scale_f32_16x16x128_f8f6f4"), "gfx942 has v_mfma_f32_16x16x32_fp8_fp8"),
    ("gfx950", lambda run: run.k.matrix_shape("f32_16x16x33_bf16"), "is no matrix instruction.*; gfx950 has v_mfma_f32_16x16x32_bf16"),
    ("gfx942", lambda run: run.k.shared("V", "bf16", 64, 64, serves=(DmaFill(),)), r"moves 1, 2, 4 bytes a lane .* not 16; DmaFill\(4\)"),
    ("gfx942", lambda run: run.k.shared("V", "bf16", 16, 32, serves=(TransposedRead(mfma("f32_16x16x16_bf16", "gfx942").a),)),
     "no transposing reads; store it transposed"),
    ("gfx942", lambda run: run.k.shared("V", "bf16", 1024, 64), "65536 bytes a workgroup; .* fewer stages or smaller tiles"),
    ("gfx950", lambda run: run.k.shared("V", "bf16", 32, 32, stages=2)[0], r"index it with the step first, V\[t\]"),
    ("gfx950", lambda run: run.k.shared("V", "fp6", 16, 130), "rows of 130 elements of 6 bits are no whole bytes"),
    ("gfx950", filled, r"64 rows of p2 \(bf16\) do not fill V .*; 32 rows of bf16 do"),
    ("gfx950", refilled, r"V belongs to no iteration; index V with the step first, V\[t \+ 1\]"),
    ("gfx950", lambda run: read(run.k, tile(run, "bf16"), run.k.shared("V", "f16", 32, 32)[()]), r"convert\(k, ...\) the tile to f16"),
    ("gfx950", lambda run: read(run.k, tile(run), run.k.shared("V", "f32", 32, 64)[()]), "a shared tile of 32 x 32, or a part"),
    ("gfx950", lambda run: read(run.k, run.tile("x", (16, 128), mfma("f32_16x16x128_f8f6f4", "gfx950", cbsz=2).a),
                                run.k.shared("V", "i8", 16, 96)[()]), r"move it as bytes, read\(k, ... as_bytes\(x\)"),
    ("gfx950", lambda run: read(run.k, tile(run, "bf16"), run.k.shared("V", "bf16", 32, 32)[()]), "no whole dword .*; transpose the tile"),
    ("gfx942", product, "is no accumulator; make it with M.d or M.d.T, which are of f32"),
    ("gfx942", lambda run: tile(run).part(0, 0, 16, 32), "fragments are 32 x 32"),
    ("gfx942", lambda run: run.k.tile("x", 30, 32, mfma(M8, "gfx942").d), "the next larger one is 32 x 32"),
    ("gfx942", lambda run: exp2(run.k, tile(run, "bf16", name="o"), tile(run)), r"only for f32; convert\(k, ...\) to f32 first"),
    ("gfx942", lambda run: mul(run.k, tile(run, name="o"), tile(run, rows=64), 2.0), "not of one shape, type and layout; change_layout"),
    ("gfx942", lambda run: abs_(run.k, tile(run, "i32", name="o"), tile(run, "i32")), "convert to f32, where abs exists"),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_refused_at_its_line_with_the_nearest_choice(case: int) -> None:
    arch, what, sentence = CASES[case]
    run = TileRun(arch)
    with pytest.raises(AsmgenError) as refused:
        what(run)
    assert re.search(sentence, refused.value.sentence), refused.value.sentence
    assert re.match(r"tests/author/test_tile_refusals\.py:\d+", refused.value.where), refused.value.where
