"""Tile mathematics in the emulator against numpy: element by element, reductions, masks, broadcasts, on both architectures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from asmgen.author.ops.elementwise import (
    abs_,
    add,
    broadcast,
    div,
    exp2,
    fill_with,
    fma,
    log2,
    max_,
    min_,
    move,
    mul,
    neg,
    rcp,
    rsq,
    sqrt,
    sub,
)
from asmgen.author.ops.masks import mask_causal, mask_columns, mask_rows, mask_rows_before, mask_window
from asmgen.author.ops.reductions import (
    column_max,
    column_min,
    column_sum,
    reduce_lanes,
    row_max,
    row_min,
    row_sum,
)
from asmgen.author.ops.vectors import column_vector, row_vector
from asmgen.author.tiles.fragments import Fragment, mfma
from asmgen.author.tiles.tiles import TileError
from asmgen.author.tiles.views import with_dtype
from asmgen.isa.registers import a, v
from asmgen.program.program import Instruction
from tests.tile_harness import Array, TileRun, rounded

ARCHS = ("gfx942", "gfx950")
SMALL, LARGE = "f32_16x16x16_bf16", "f32_32x32x8_bf16"


def some(rows: int, columns: int, seed: int = 1, low: float = -4, high: float = 4) -> Array:
    """Values without symmetry, f32."""
    return np.random.default_rng(seed).uniform(low, high, (rows, columns)).astype(np.float32).astype(np.float64)


def d_fragment(arch: str, shape: str, transposed: bool = False) -> Fragment:
    fragment = mfma(shape, arch).d
    return fragment.T if transposed else fragment


UNARY: list[tuple[Callable[..., None], Callable[[Array], Array]]] = [
    (exp2, np.exp2), (log2, np.log2), (rcp, lambda x: 1 / x), (rsq, lambda x: 1 / np.sqrt(x)), (sqrt, np.sqrt), (neg, np.negative),
    (abs_, np.abs), (move, lambda x: x)]


@pytest.mark.parametrize("arch", ARCHS)
def test_functions_of_one_tile(arch: str) -> None:
    values = some(32, 16, low=0.25) if arch == "gfx942" else some(32, 16, 3, low=0.25)
    run = TileRun(arch)
    x = run.tile("x", (32, 16), d_fragment(arch, SMALL), values)
    signed = run.tile("s", (32, 16), d_fragment(arch, SMALL), values - 2)
    for op, _ in UNARY:
        out = run.tile(op.__name__, (32, 16), x.fragment)
        op(run.k, out, signed if op in (neg, abs_) else x)
        run.give(out)
    for (op, reference), found in zip(UNARY, run.finish(), strict=True):
        expected = reference((values - 2).astype(np.float32).astype(np.float64) if op in (neg, abs_) else values)
        np.testing.assert_allclose(found, expected, rtol=3e-7, atol=1e-7, err_msg=op.__name__)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("arch", ARCHS)
def test_functions_of_two_tiles_vectors_and_numbers(arch: str, packed: bool) -> None:
    xs, ys = some(32, 32, 1), some(32, 32, 2)
    run = TileRun(arch, values=[int(np.float32(1.75).view(np.uint32))])
    k = run.k
    f = d_fragment(arch, SMALL, transposed=True)
    x, y = run.tile("x", (32, 32), f, xs), run.tile("y", (32, 32), f, ys)
    rows, columns = row_vector(k, "rows", x), column_vector(k, "columns", x)
    row_max(k, rows, x)
    column_max(k, columns, y)
    r, c = xs.max(1, keepdims=True), ys.max(0, keepdims=True)
    scalar = k.argument("v0")
    cases: list[tuple[Callable[..., None], tuple[Any, ...], Array]] = [
        (add, (x, y), xs + ys), (sub, (x, y), xs - ys), (mul, (x, y), xs * ys), (max_, (x, y), np.maximum(xs, ys)),
        (min_, (x, y), np.minimum(xs, ys)), (sub, (x, rows), xs - r), (sub, (columns, x), c - xs), (mul, (x, columns), xs * c),
        (add, (x, 1.0), xs + 1), (sub, (x, 0.3), xs - np.float32(0.3)), (sub, (x, scalar), xs - 1.75), (sub, (scalar, x), 1.75 - xs),
        (mul, (x, scalar), xs * 1.75), (fma, (x, scalar, rows), xs * 1.75 + r), (fma, (x, y, columns), xs * ys + c),
        (fma, (x, 2.0, y), 2 * xs + ys), (max_, (x, scalar), np.maximum(xs, 1.75)), (broadcast, (rows,), r + 0 * xs),
        (broadcast, (columns,), c + 0 * xs), (div, (x, rows), xs / r)]
    for number, (op, sources, _) in enumerate(cases):
        out = run.tile(f"out{number}", (32, 32), f)
        op(k, out, *sources, **({"packed": packed} if op in (add, sub, mul, fma) else {}))
        run.give(out)
        k.registers.release(f"out{number}")
    found = run.finish()
    for (op, _, expected), result in zip(cases, found, strict=True):
        np.testing.assert_allclose(result, expected, rtol=3e-7, atol=1e-6, err_msg=op.__name__)


@pytest.mark.parametrize("arch", ARCHS)
def test_tiles_in_agprs_go_through_vgprs(arch: str) -> None:
    """Twelve registers, which is no multiple of those that go at once; a tile in AGPRs as destination, as source, as both."""
    xs, ys = some(48, 16, 1), some(48, 16, 2)
    run = TileRun(arch)
    k = run.k
    f = d_fragment(arch, SMALL)
    x, y = run.tile("x", (48, 16), f, xs), run.tile("y", (48, 16), f, ys)
    columns = column_vector(k, "columns", x)
    column_max(k, columns, y)
    ax, ay = (k.tile(name, 48, 16, f, file="a") for name in ("ax", "ay"))
    move(k, ax, x)
    sub(k, ay, ax, y)
    mul(k, ax, ax, columns)
    out = run.tile("out", (48, 16), f)
    sub(k, out, ay, ax)
    before = len(k.items)
    add(k, ay, ay, ax)
    names = [item.name for item in k.items[before:] if isinstance(item, Instruction)]
    assert [names.count(name) for name in ("v_accvgpr_read_b32", "v_pk_add_f32", "v_accvgpr_write_b32")] == [24, 6, 12]
    sums = run.tile("sums", (48, 16), f)
    move(k, sums, ay)
    for tile in (out, sums):
        run.give(tile)
    found = run.finish()
    one, other = xs - ys, xs * ys.max(0, keepdims=True)
    np.testing.assert_allclose(found[0], one - other, rtol=3e-7, atol=2e-6)
    np.testing.assert_allclose(found[1], one + other, rtol=3e-7, atol=2e-6)


SHAPES = [(SMALL, False), (SMALL, True), (LARGE, False), (LARGE, True)]


@pytest.mark.parametrize(("shape", "transposed"), SHAPES)
@pytest.mark.parametrize("arch", ARCHS)
def test_reductions(arch: str, shape: str, transposed: bool) -> None:
    f = d_fragment(arch, shape, transposed)
    size = (2 * f.rows, 2 * f.columns) if f.rows == 16 else (f.rows, 2 * f.columns)
    values = some(*size, seed=5)
    before = float(np.float32(3.9))
    run = TileRun(arch)
    k = run.k
    x = run.tile("x", size, f, values)
    expected = []
    for axis, make, ops in (("row", row_vector, (row_max, row_min, row_sum)),
                            ("column", column_vector, (column_max, column_min, column_sum))):
        number = 1 if axis == "row" else 0
        for op, reference in zip(ops, (np.max, np.min, np.sum), strict=True):
            out = make(k, f"{axis}_{op.__name__}", x)
            op(k, out, x)
            run.give(out)
            expected.append(reference(values, axis=number))
        started, partial, scalar_sum = make(k, f"{axis}_started", x), make(k, f"{axis}_partial", x), make(k, f"{axis}_plain", x)
        fill_with(k, started, before)
        ops[0](k, started, x, start=True)
        run.give(started)
        expected.append(np.maximum(values.max(axis=number), before))
        fill_with(k, partial, 0)
        ops[2](k, partial, x, across=False, start=True)
        ops[2](k, partial, x, across=False, start=True, packed=False)
        reduce_lanes(k, "sum", partial)
        run.give(partial)
        expected.append(2 * values.sum(axis=number))
        ops[2](k, scalar_sum, x, packed=False)
        run.give(scalar_sum)
        expected.append(values.sum(axis=number))
    for found, wanted in zip(run.finish(), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=3e-5)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("arch", ARCHS)
def test_masks(arch: str, transposed: bool) -> None:
    values = some(32, 48, 7)
    run = TileRun(arch, values=[37, 5, (1 << 32) - 3])
    k = run.k
    f = d_fragment(arch, SMALL, transposed)
    source = run.tile("x", (32, 48), f, values)
    row, column = np.indices((32, 48))
    cases: list[tuple[Callable[..., None], tuple[Any, ...], dict[str, Any], Array]] = [
        (mask_columns, (k.argument("v0"),), {}, column < 37), (mask_columns, (0,), {}, column < 0),
        (mask_rows, (21,), {"value": 0, "vcc_free": True}, row < 21),
        (mask_rows_before, (21,), {"vcc_free": transposed}, row >= 21),
        (mask_causal, (k.argument("v1"),), {}, column <= row + 5), (mask_causal, (k.argument("v2"),), {}, column <= row - 3),
        (mask_causal, (-7,), {"transposed": True}, row <= column - 7),
        (mask_window, (k.argument("v1"), 9), {}, (column <= row + 5) & (column >= row - 4))]
    for number, (op, bounds, more, _) in enumerate(cases):
        x = run.tile(f"x{number}", (32, 48), f)
        move(k, x, source)
        op(k, x, *bounds, **more)
        run.give(x)
        k.registers.release(f"x{number}")
    for (_, _, more, kept), found in zip(cases, run.finish(), strict=True):
        np.testing.assert_array_equal(found, np.where(kept, values, more.get("value", -np.inf)))


@pytest.mark.parametrize("left", [4, 2, 0])
def test_masks_take_the_sgprs_that_there_are(left: int) -> None:
    values = some(32, 32, 7)
    run = TileRun("gfx950")
    k = run.k
    x = run.tile("x", (32, 32), d_fragment("gfx950", SMALL), values)
    held = []
    while k.registers.has(left + 2, "s"):
        held.append(k.registers.sgprs(2, f"held{len(held)}"))
    mask_rows(k, x, 21, vcc_free=not left)
    k.registers.release(*held)
    run.give(x)
    np.testing.assert_array_equal(run.finish()[0], np.where(np.indices((32, 32))[0] < 21, values, -np.inf))


@pytest.mark.parametrize("arch", ARCHS)
def test_fills_copies_and_accumulators(arch: str) -> None:
    run = TileRun(arch)
    k = run.k
    f = d_fragment(arch, SMALL)
    values = some(16, 32, 9)
    x = run.tile("x", (16, 32), f, values)
    acc, other, back = run.tile("acc", (16, 32), f, file="a"), run.tile("acc2", (16, 32), f, file="a"), run.tile("back", (16, 32), f)
    move(k, acc, x)
    move(k, other, acc)
    move(k, back, other)
    run.give(back)
    for number, (dtype, value) in enumerate([("f32", 0), ("f32", float("-inf")), ("f32", 0.375), ("f16", -2.5), ("bf16", 3.0),
                                             ("i32", -7)]):
        tile = run.tile(f"filled{number}", (16, 16), with_dtype(f, dtype))
        fill_with(k, tile, value)
        run.give(tile)
    fill_with(k, acc, -1.5)
    move(k, back, acc)
    run.give(back)
    found = run.finish()
    np.testing.assert_array_equal(found[0], values)
    for result, value in zip(found[1:], [0, -np.inf, 0.375, -2.5, 3.0, -7, -1.5], strict=True):
        np.testing.assert_array_equal(result, value)


@pytest.mark.parametrize("arch", ARCHS)
def test_halves_integers_and_signs_of_small_types(arch: str) -> None:
    run = TileRun(arch)
    k = run.k
    f = d_fragment(arch, SMALL)
    one, two = some(16, 32, 11), some(16, 32, 12)
    half, whole = with_dtype(f, "f16"), with_dtype(f, "i32")
    h, g = run.tile("h", (16, 32), half, one), run.tile("g", (16, 32), half, two)
    i, j = run.tile("i", (16, 32), whole, one * 100), run.tile("j", (16, 32), whole, two * 1000)
    hs, gs, ints, js = rounded(one, "f16", arch), rounded(two, "f16", arch), np.trunc(one * 100), np.trunc(two * 1000)
    cases: list[tuple[Callable[..., None], tuple[Any, ...], Fragment, Array]] = [
        (add, (h, g), half, hs + gs), (sub, (h, g), half, hs - gs), (mul, (h, g), half, hs * gs), (max_, (h, g), half, np.maximum(hs, gs)),
        (fma, (h, g, h), half, hs * gs + hs), (neg, (h,), half, -hs), (abs_, (h,), half, np.abs(hs)),
        (add, (i, j), whole, ints + js), (sub, (i, j), whole, ints - js), (mul, (i, j), whole, ints * js),
        (max_, (i, j), whole, np.maximum(ints, js)), (min_, (i, 5), whole, np.minimum(ints, 5)), (neg, (i,), whole, -ints)]
    for number, (op, sources, fragment, _) in enumerate(cases):
        out = run.tile(f"out{number}", (16, 32), fragment)
        op(k, out, *sources)
        run.give(out)
    for dtype in ("bf16", "fp8"):
        tile = run.tile(f"small {dtype}", (16, 32), with_dtype(f, dtype), one)
        neg(k, tile, tile)
        run.give(tile)
    results = run.finish()
    for (_, _, fragment, expected), found in zip(cases, results, strict=False):
        np.testing.assert_array_equal(found, rounded(expected, fragment.dtype, arch))
    for dtype, found in zip(("bf16", "fp8"), results[-2:], strict=True):
        np.testing.assert_array_equal(found, -rounded(one, dtype, arch))


def test_what_does_not_fit_is_refused_at_its_line() -> None:
    run = TileRun("gfx942")
    k = run.k
    f = d_fragment("gfx942", SMALL)
    x, wide = run.tile("x", (32, 16), f), run.tile("wide", (32, 32), f)
    transposed, acc = run.tile("transposed", (32, 16), f.T), run.tile("acc", (32, 16), f, file="a")
    half = run.tile("half", (32, 16), with_dtype(f, "f16"))
    bf = run.tile("bf", (32, 16), with_dtype(f, "bf16"))
    rows, columns = row_vector(k, "rows", x), column_vector(k, "columns", x)
    here = r"test_tile_math\.py:\d+: "
    for emit, sentence in (
        (lambda: add(k, x, x, wide), here + r"add: wide .* and x .* are not of one shape"),
        (lambda: add(k, x, x, transposed), here + r"add: transposed .* layout; change_layout"),
        (lambda: exp2(k, x, acc), here + r"exp2: acc .* lies in AGPRs"),
        (lambda: exp2(k, half, half), here + r"exp2 does not exist for f16 .* only for f32; convert"),
        (lambda: add(k, bf, bf, bf), here + r"add does not exist for bf16 on gfx942, only for f32, i32, f16"),
        (lambda: add(k, half, half, rows), here + r"add: rows \(32 rows\) is f32 and half"),
        (lambda: sub(k, transposed, transposed, rows), here + r"sub: rows .* does not fit transposed"),
        (lambda: row_max(k, columns, x), here + r"row max: columns .* is no row vector of x"),
        (lambda: row_max(k, rows, half), here + r"row max: half .* is f16"),
        (lambda: row_sum(k, rows, x, start=True), here + r"row sum: start would be added once for each of the 16 lanes"),
        (lambda: div(k, x, x, wide), here + r"div takes a vector"),  # type: ignore[arg-type]
        (lambda: fill_with(k, bf, 0.1), here + r"fill_with: 0.1 is no value"),
        (lambda: add(k, x, x, v[0:1]), here + r"add: v\[0:1\] is 2 registers"),
        (lambda: mask_columns(k, half, 3), here + r"mask columns of half"),
        (lambda: row_vector(k, "few", x, at=a[100:102]), here + r"vector few of x .* takes 8 registers"),
    ):
        with pytest.raises(TileError, match=sentence):
            emit()
