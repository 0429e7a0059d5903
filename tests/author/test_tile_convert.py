"""Conversions of tiles between element types in the emulator, against the formats' own encodings, on both architectures."""

from __future__ import annotations

import numpy as np
import pytest

from asmgen.author.ops.conversions import convert
from asmgen.author.tiles.fragments import mfma
from asmgen.author.tiles.tiles import TileError
from asmgen.author.tiles.views import with_dtype
from asmgen.isa.layouts_mfma import element_bits
from tests.tile_harness import Array, TileRun, codes_of, rounded, values_of

SHAPE = "f32_32x32x8_bf16"
NARROW = [("bf16", ("gfx942", "gfx950")), ("f16", ("gfx942", "gfx950")), ("fp8", ("gfx942", "gfx950")), ("bf8", ("gfx942", "gfx950")),
          ("i8", ("gfx942", "gfx950")), ("i32", ("gfx942", "gfx950")), ("fp4", ("gfx950",))]
CASES = [(dtype, arch) for dtype, archs in NARROW for arch in archs]


def some(seed: int) -> Array:
    """f32 of many magnitudes, ties of bf16 among them, within what i8 and fp8 hold."""
    rng = np.random.default_rng(seed)
    values = rng.uniform(-1, 1, (32, 32)) * 2.0 ** rng.integers(-3, 7, (32, 32))
    values = values.astype(np.float32)
    words = values.view(np.uint32)
    words[::3] = words[::3] & np.uint32(0xFFFF0000) | np.uint32(0x8000)  # ties of bf16
    return words.view(np.float32).astype(np.float64)


@pytest.mark.parametrize(("dtype", "arch"), CASES)
def test_narrowing_is_nearest_even_and_comes_back(dtype: str, arch: str) -> None:
    values = some(3)
    f = mfma(SHAPE, arch).d
    run = TileRun(arch)
    k = run.k
    x = run.tile("x", (32, 32), f, values)
    out, back = run.tile("out", (32, 32), with_dtype(f, dtype)), run.tile("back", (32, 32), f)
    convert(k, out, x)
    convert(k, back, out)
    run.give(out)
    run.give(back)
    limits = (-128, 127) if dtype == "i8" else (-2**31, 2**31)
    expected = np.clip(np.rint(values), *limits) if dtype[0] == "i" else rounded(values, dtype, arch)
    for found in run.finish():
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("dtype", "arch"), [case for case in CASES if element_bits(case[0]) < 32 and case[0] != "i8"])
def test_narrowing_in_place(dtype: str, arch: str) -> None:
    """Into the first registers of each fragment's own, as P is made of S."""
    from asmgen.author.tiles.tiles import Tile
    from asmgen.regalloc.sets import RegisterSet

    values = some(5)
    f = mfma(SHAPE, arch).d
    run = TileRun(arch)
    x = run.tile("x", (32, 32), f, values)
    small = with_dtype(f, dtype)
    out = Tile("p", 32, 32, small, RegisterSet((x.base(0, 0)[0:small.registers - 1],)))
    convert(run.k, out, x)
    run.give(out)
    np.testing.assert_array_equal(run.finish()[0], rounded(values, dtype, arch))


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_truncation(arch: str) -> None:
    values = some(7)
    f = mfma(SHAPE, arch).d
    run = TileRun(arch)
    x = run.tile("x", (32, 32), f, values)
    for dtype in ("bf16", "f16", "i32"):
        out = run.tile(dtype, (32, 32), with_dtype(f, dtype))
        convert(run.k, out, x, rounding="truncate")
        run.give(out)
    bf16, f16, i32 = run.finish()
    np.testing.assert_array_equal(bf16, values_of(codes_of(values, "f32", arch) >> np.uint32(16), "bf16", arch))
    nearest = rounded(values, "f16", arch)
    down = np.nextafter(nearest.astype(np.float16), np.float16(0)).astype(np.float64)
    np.testing.assert_array_equal(f16, np.where(np.abs(nearest) > np.abs(values), down, nearest))
    np.testing.assert_array_equal(i32, np.trunc(values))


@pytest.mark.parametrize("nan", [True, False])
def test_a_nan_stays_one_on_gfx942(nan: bool) -> None:
    values = some(9)
    values[3, 5], values[7, 1], values[8, 8] = np.nan, np.inf, -np.inf
    f = mfma(SHAPE, "gfx942").d
    run = TileRun("gfx942")
    x = run.tile("x", (32, 32), f, values)
    out = run.tile("out", (32, 32), with_dtype(f, "bf16"))
    convert(run.k, out, x, nan=nan)
    run.give(out)
    found = run.finish()[0]
    if nan:
        np.testing.assert_array_equal(found, rounded(values, "bf16", "gfx942"))
    else:
        keep = ~np.isnan(values)
        np.testing.assert_array_equal(found[keep], rounded(values, "bf16", "gfx942")[keep])


@pytest.mark.parametrize("dtype", ["fp6", "bf6"])
@pytest.mark.parametrize("source", ["bf16", "f16"])
def test_six_bits_from_halves_and_to_everything(dtype: str, source: str) -> None:
    values = some(11)[:16].repeat(4, axis=1)[:, :128] * 0.2
    f = mfma("f32_16x16x128_f8f6f4", "gfx950", cbsz=2).a
    run = TileRun("gfx950")
    k = run.k
    x = run.tile("x", (16, 128), with_dtype(f, source), values)
    out, back, wide = (run.tile(name, (16, 128), with_dtype(f, kind)) for name, kind in (("out", dtype), ("back", source), ("wide", "f32")))
    convert(k, out, x, scale=2.0)
    convert(k, back, out)
    convert(k, wide, out, scale=2.0)
    for tile in (out, back, wide):
        run.give(tile)
    once = rounded(rounded(values, source, "gfx950") / 2, dtype, "gfx950")
    for found, expected in zip(run.finish(), (once, once, once * 2), strict=True):
        np.testing.assert_array_equal(found, expected)


SMALL = ("fp8", "bf8", "i8", "fp4")
PAIRS = [(source, dtype, arch) for arch in ("gfx942", "gfx950") for source in ("bf16", "f16", *SMALL) for dtype in ("bf16", "f16", *SMALL)
         if source != dtype and (arch == "gfx950" or "fp4" not in (source, dtype))]


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_every_other_pair_of_types(arch: str) -> None:
    """Without f32 tiles: by an instruction of gfx950 or over f32 in scratch, with one rounding."""
    values = some(17) * 0.05
    f = mfma(SHAPE, arch).d
    run = TileRun(arch)
    expected = []
    for source, dtype, _ in [pair for pair in PAIRS if pair[2] == arch]:
        scaled = np.rint(values * 20) if source == "i8" else values
        x = run.tile(f"{source}_to_{dtype}", (32, 32), with_dtype(f, source), scaled)
        out = run.tile(f"{dtype}_of_{source}", (32, 32), with_dtype(f, dtype))
        convert(run.k, out, x)
        run.give(out)
        run.k.registers.release(x.name, out.name)
        held = rounded(scaled, source, arch)
        expected.append((source, dtype, np.clip(np.rint(held), -128, 127) if dtype == "i8" else rounded(held, dtype, arch)))
    for found, (source, dtype, wanted) in zip(run.finish(), expected, strict=True):
        np.testing.assert_array_equal(found, wanted, err_msg=f"{source} to {dtype}")


def test_scales_of_packed_conversions() -> None:
    values = some(19) * 0.1
    f = mfma(SHAPE, "gfx950").d
    run = TileRun("gfx950")
    x = run.tile("x", (32, 32), with_dtype(f, "bf16"), values)
    out, back = run.tile("out", (32, 32), with_dtype(f, "fp8")), run.tile("back", (32, 32), with_dtype(f, "bf16"))
    convert(run.k, out, x, scale=4.0)
    convert(run.k, back, out, scale=4.0)
    run.give(out)
    run.give(back)
    once = rounded(rounded(values, "bf16", "gfx950") / 4, "fp8", "gfx950")
    for found, wanted in zip(run.finish(), (once, once * 4), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_integers_widen() -> None:
    values = np.rint(some(13))
    f = mfma(SHAPE, "gfx942").d
    run = TileRun("gfx942")
    x, out = run.tile("x", (32, 32), with_dtype(f, "i8"), values), run.tile("out", (32, 32), with_dtype(f, "i32"))
    convert(run.k, out, x)
    run.give(out)
    np.testing.assert_array_equal(run.finish()[0], values)


def test_refusals() -> None:
    run = TileRun("gfx942")
    k = run.k
    f = mfma(SHAPE, "gfx942").d
    x = run.tile("x", (32, 32), f)
    make = {dtype: run.tile(dtype, (32, 32), with_dtype(f, dtype)) for dtype in ("bf16", "fp8", "fp4", "i8")}
    transposed = run.tile("transposed", (32, 32), with_dtype(f.T, "bf16"))
    here = r"test_tile_convert\.py:\d+: convert: "
    for out, source, more, sentence in (
        (make["fp4"], x, {}, "gfx942 has no instructions from f32 to fp4 rounding nearest; 4- and 6-bit types exist on gfx950 only"),
        (make["fp8"], x, {"rounding": "truncate"}, "gfx942 has no instructions from f32 to fp8 rounding truncate; nearest exists"),
        (make["fp8"], make["bf16"], {"rounding": "truncate"}, "gfx942 has no instructions from bf16 to fp8 rounding truncate; convert"),
        (make["bf16"], k.tile("i32", 32, 32, with_dtype(f, "i32")), {},
         "gfx942 has no instructions from i32 to bf16 rounding nearest; convert to f32 first"),
        (make["bf16"], x, {"rounding": "up"}, "rounding is nearest or truncate, not 'up'"),
        (transposed, x, {}, r"transposed .* does not have the places of x .* with_dtype\(x.fragment, 'bf16'\)"),
    ):
        with pytest.raises(TileError, match=here + sentence):
            convert(k, out, source, **more)  # type: ignore[arg-type]
