"""Shifts, logic, indices, comparisons, selections, factors of packed instructions and random words, in the emulator."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
import pytest

from asmgen.author.ops.bits import and_, indices, or_, shift_left, shift_right, xor
from asmgen.author.ops.draws import philox
from asmgen.author.ops.elementwise import add, fma, max_, min_, mul, sub
from asmgen.author.ops.selects import Comparison, compare, where
from asmgen.author.ops.vectors import row_vector
from asmgen.author.schedule.schedules import InOrder
from asmgen.author.step.iterations import StepIndex
from asmgen.author.tiles.fragments import Fragment, mfma
from asmgen.author.tiles.tiles import Tile, TileError
from asmgen.author.tiles.views import with_dtype
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction
from tests.tile_harness import Array, TileRun

ARCHS = ("gfx942", "gfx950")


def lanes(arch: str, dtype: str = "i32", transposed: bool = False) -> Fragment:
    f = mfma("f32_16x16x16_f16", arch).d
    return with_dtype(f.T if transposed else f, dtype)


def whole(rows: int = 16, columns: int = 16, seed: int = 1) -> Array:
    """Numbers of 32 bits with the borders of both kinds of them, as signed values."""
    found = np.random.default_rng(seed).integers(0, 1 << 32, (rows, columns), dtype=np.uint64).astype(np.uint32).view(np.int32)
    found.flat[:6] = 0, -1, 1, -(1 << 31), (1 << 31) - 1, 7
    return found.astype(np.float64)


def real(rows: int = 16, columns: int = 16, seed: int = 1) -> Array:
    found = np.random.default_rng(seed).uniform(-4, 4, (rows, columns)).astype(np.float32)
    found.flat[:6] = np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5
    return found.astype(np.float64)


def words(values: Array) -> Array:
    return values.astype(np.int64).astype(np.uint32)


def scalar(run: TileRun, value: int, name: str = "scalar") -> Reg:
    reg = run.k.registers.sgprs(1, name)
    run.k.s_mov_b32(reg, value & 0xFFFFFFFF)
    return reg


def emitted(run: TileRun, before: int) -> list[Instruction]:
    return [item for item in run.k.items[before:] if isinstance(item, Instruction)]


@pytest.mark.parametrize("arch", ARCHS)
def test_bits_of_tiles_vectors_scalars_and_numbers(arch: str) -> None:
    run = TileRun(arch)
    k, a, b = run.k, whole(seed=1), whole(seed=2)
    x, y = run.tile("x", (16, 16), lanes(arch), a), run.tile("y", (16, 16), lanes(arch), b)
    rows = row_vector(k, "rows", x, dtype="i32")
    run.registers_in(rows.registers.items, np.array([[4 * (lane // 16) + item for lane in range(64)] for item in range(4)], np.uint32))
    s = scalar(run, 0x9E3779B9)
    u, w = words(a), words(b)
    at = np.arange(16, dtype=np.uint32)[:, None]
    cases: list[tuple[Callable[[Tile], object], Array]] = [
        (lambda out: shift_left(k, out, x, 13), u << np.uint32(13)),
        (lambda out: shift_right(k, out, x, rows), u >> at),
        (lambda out: shift_right(k, out, x, 9, signed=True), (u.view(np.int32) >> 9).view(np.uint32)),
        (lambda out: shift_left(k, out, 1, y), np.uint32(1) << (w & np.uint32(31))),
        (lambda out: and_(k, out, x, 0x00FF00F0), u & np.uint32(0x00FF00F0)),
        (lambda out: or_(k, out, s, x), u | np.uint32(0x9E3779B9)),
        (lambda out: xor(k, out, x, y), u ^ w),
        (lambda out: xor(k, out, -1, y), ~w),
        (lambda out: add(k, out, x, s), u + np.uint32(0x9E3779B9)),
        (lambda out: sub(k, out, 3, x), np.uint32(3) - u),
        (lambda out: mul(k, out, x, 0x21F0AAAD), u * np.uint32(0x21F0AAAD)),
        (lambda out: mul(k, out, x, s), u * np.uint32(0x9E3779B9)),
        (lambda out: add(k, out, x, rows), u + at),
        (lambda out: add(k, out, x, y), u + w),
        (lambda out: add(k, out, x, -0x7FFF1234), u - np.uint32(0x7FFF1234)),
        (lambda out: (add(k, out, x, y), add(k, out, out, out)), (u + w) * np.uint32(2)),
        (lambda out: sub(k, out, x, y), u - w),
        (lambda out: mul(k, out, x, y), u * w),
        (lambda out: max_(k, out, x, y), np.maximum(u.view(np.int32), w.view(np.int32)).view(np.uint32)),
        (lambda out: min_(k, out, x, 7), np.minimum(u.view(np.int32), 7).view(np.uint32))]
    for number, (op, _) in enumerate(cases):
        out = run.tile(f"out{number}", (16, 16), lanes(arch))
        op(out)
        run.give(out)
    for number, (found, (_, expected)) in enumerate(zip(run.finish(), cases, strict=True)):
        np.testing.assert_array_equal(words(found), expected, err_msg=str(number))


def test_logic_takes_bits_of_any_type() -> None:
    """The sign of each half of a register."""
    run = TileRun("gfx942")
    x = run.tile("x", (16, 16), mfma("f32_16x16x16_bf16", "gfx942").a, values := np.rint(real()[::-1] * 4))
    and_(run.k, x, x, 0x7FFF7FFF)
    run.give(x)
    np.testing.assert_array_equal(run.finish()[0], abs(values))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("arch", ARCHS)
def test_indices_of_elements(arch: str, transposed: bool) -> None:
    run = TileRun(arch)
    k = run.k
    x, y = (run.tile(name, (32, 48), lanes(arch, transposed=transposed)) for name in "xy")
    indices(k, x)
    indices(k, y, rows=1000, columns=3, first=scalar(run, 0xFFFFFF00))
    run.give(x)
    run.give(y)
    columns, mixed = run.finish()
    at = np.arange(32, dtype=np.uint32)[:, None], np.arange(48, dtype=np.uint32)
    np.testing.assert_array_equal(words(columns), at[0] * np.uint32(0) + at[1])
    np.testing.assert_array_equal(words(mixed), at[0] * np.uint32(1000) + at[1] * np.uint32(3) + np.uint32(0xFFFFFF00))


RELATIONS: dict[str, Callable[[Array, object], Array]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne}


@pytest.mark.parametrize("kind", ["f32", "i32", "u32"])
@pytest.mark.parametrize("arch", ARCHS)
def test_relations(arch: str, kind: str) -> None:
    """Each with a tile, with a number that no encoding takes, with 0, and with the number first; NaN is unequal to all."""
    dtype = "f32" if kind == "f32" else "i32"
    a, b = (real(seed=1), real(seed=2)) if kind == "f32" else (whole(seed=1), whole(seed=2))
    b.flat[20:40] = a.flat[20:40]
    left, right, bound = a, b, 1.5 if kind == "f32" else 7
    literal = 1.7 if kind == "f32" else 1 << 30
    b.flat[40] = a.flat[41] = np.float32(literal)
    if kind == "u32":
        left, right = (words(one).astype(np.float64) for one in (a, b))
    run = TileRun(arch)
    k = run.k
    x, y = run.tile("x", (16, 16), lanes(arch, dtype), a), run.tile("y", (16, 16), lanes(arch, dtype), b)
    expected = []
    for number, (name, relation) in enumerate(RELATIONS.items()):
        cases: list[tuple[object, object, Array]] = [
            (x, y, relation(left, right)), (x, literal, relation(left, np.float32(literal))), (x, 0, relation(left, 0.0)),
            (bound, y, relation(np.full((16, 16), float(bound)), right))]
        for part, (one, other, holds) in enumerate(cases):
            out = run.tile(f"out{number}_{part}", (16, 16), lanes(arch))
            where(k, out, compare(one, name, other, unsigned=kind == "u32"), 5, -1)  # type: ignore[arg-type]
            run.give(out)
            k.registers.release(f"out{number}_{part}")
            expected.append(np.where(holds, 5.0, -1.0))
    for number, (found, wanted) in enumerate(zip(run.finish(), expected, strict=True)):
        np.testing.assert_array_equal(found, wanted, err_msg=str(number))


@pytest.mark.parametrize("arch", ARCHS)
def test_selections_of_several_conditions(arch: str) -> None:
    """In place, with a vector, SGPRs and numbers that need registers; `and` binds as Python's operators do."""
    run = TileRun(arch)
    k, a, b = run.k, real(seed=3), whole(seed=4)
    x, n = run.tile("x", (16, 16), lanes(arch, "f32"), a), run.tile("n", (16, 16), lanes(arch), b)
    rows = row_vector(k, "rows", x)
    run.registers_in(rows.registers.items, np.array([[4 * (lane // 16) + item for lane in range(64)] for item in range(4)],
                                                    np.float32).view(np.uint32))
    out = run.tile("out", (16, 16), lanes(arch, "f32"))
    where(k, out, compare(x, ">", -1.25) & compare(x, "<", rows) | compare(n, ">=", scalar(run, 0xC0000000), unsigned=True), x, 3.25)
    where(k, x, compare(x, "!=", x), scalar(run, 0x42F60000, "tame"), x)  # NaN becomes 123
    run.give(out)
    run.give(x)
    chosen, tamed = run.finish()
    with np.errstate(invalid="ignore"):
        holds = (a > -1.25) & (a < np.arange(16)[:, None]) | (words(b) >= 0xC0000000)
    np.testing.assert_array_equal(chosen, np.where(holds, a, 3.25))
    np.testing.assert_array_equal(tamed, np.where(np.isnan(a), 123, a))


def test_what_cannot_be_compared_or_shifted_is_refused() -> None:
    run = TileRun("gfx950")
    k = run.k
    x, n = run.tile("x", (16, 16), lanes("gfx950", "f32")), run.tile("n", (16, 16), lanes("gfx950"))
    half = run.tile("half", (16, 16), mfma("f32_16x16x16_bf16", "gfx950").a)
    for attempt, sentence in (
            (lambda: compare(x, "=", 0), "compare knows <, <=, >, >=, ==, !=, not '='"),
            (lambda: where(k, x, Comparison(x, "<", n), 0, 1), "compares f32 with i32"),
            (lambda: where(k, x, Comparison(1, "<", 2), 0, 1), "compares no tile"),
            (lambda: where(k, x, Comparison(x, "<", 2, unsigned=True), 0, 1), "as unsigned numbers"),
            (lambda: where(k, half, Comparison(half, "<", 2), 0, 1), "elements of 16 bits"),
            (lambda: where(k, x, Comparison(x, "<", 2), n, 1), "are not of one shape, type and layout"),
            (lambda: shift_left(k, x, x, 1), "shift left does not exist for f32"),
            (lambda: indices(k, x), "indices: x .* i32 and factors from 0 on"),
            (lambda: philox(k, (n, n, n), (n, 0, 0, 0), (1, 2)), "3 results"),
            (lambda: philox(k, (n, n, n, n), (n, 0, 0, 0), (1, 2), rounds=8), "8 rounds; 4, 4, 2 and 7 or 10"),
            (lambda: philox(k, (n, n, n, x), (n, 0, 0, 0), (1, 2)), "x .* is f32; random words are i32")):
        with pytest.raises(TileError, match=sentence):
            attempt()


# ---- factors ----


@pytest.mark.parametrize("arch", ARCHS)
def test_a_factor_of_one_register_is_taken_twice(arch: str) -> None:
    """A number, an SGPR that is alone, the odd register of another name: 8 pairs each by 8 packed instructions and two copies."""
    run = TileRun(arch)
    k, a = run.k, real(32, 32)
    factor = k.registers.sgprs(1, "factor")
    k.s_mov_b32(factor, np.float32(0.3).view(np.uint32).item())
    odd = k.registers.vgprs(2, "odds", align=2)
    k.v_mov_b32(odd[0], 0)
    k.v_mov_b32(odd[1], factor)
    alone = k.registers.vgprs(1, "alone")
    k.v_mov_b32(alone, factor)
    x = run.tile("x", (32, 32), lanes(arch, "f32"), a)
    third = np.float32(0.3).astype(np.float64)
    expected, costs = [], []
    for number, source in enumerate((0.3, factor, odd[1], alone)):
        out = run.tile(f"out{number}", (32, 32), lanes(arch, "f32"))
        before = len(k.items)
        mul(k, out, x, source)
        fma(k, out, out, source, source)
        names = [item.name for item in emitted(run, before)]
        assert (names.count("v_pk_mul_f32"), names.count("v_pk_fma_f32")) == (8, 8)
        costs.append(len(names) - 16)
        run.give(out)
        product = (a * third).astype(np.float32).astype(np.float64)
        expected.append((product * third + third).astype(np.float32))
    assert costs == ([4, 4, 0, 4] if arch == "gfx942" else [4, 4, 4, 4])
    for found, wanted in zip(run.finish(), expected, strict=True):
        np.testing.assert_array_equal(found.astype(np.float32), wanted)


def test_where_nothing_is_packed_the_text_says_why() -> None:
    run = TileRun("gfx950")
    k = run.k
    x = run.tile("x", (16, 16), lanes("gfx950", "f32"), real())
    before = len(k.items)
    mul(k, x, x, 0.3)  # two pairs: copies would not pay
    mul(k, x, x, 0.3, packed=False)
    mul(k, x, x, 2.0)
    comments = [item.comment for item in emitted(run, before)]
    assert [number for number, comment in enumerate(comments) if comment] == [0]
    assert comments[0] == "not packed: 0.3 is no inline constant"
    assert "v_mul_f32 v" in run.kernel().text() and "not packed: 0.3" in run.kernel().text()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("arch", ARCHS)
def test_scalars_where_the_encoding_takes_one(arch: str, packed: bool) -> None:
    """Two different SGPRs and a number in one operation of three sources."""
    run = TileRun(arch)
    k, a = run.k, real(16, 32)
    x = run.tile("x", (16, 32), lanes(arch, "f32"), a)
    one, other = scalar(run, 0x3E99999A, "one"), scalar(run, 0x40490FDB, "other")
    results = [run.tile(f"out{number}", (16, 32), lanes(arch, "f32")) for number in range(3)]
    fma(k, results[0], x, one, other, packed=packed)
    fma(k, results[1], x, 0.7, one, packed=packed)
    fma(k, results[2], one, other, x, packed=packed)
    for out in results:
        run.give(out)
    low, high, number = (float(np.float32(value)) for value in (0.3, np.pi, 0.7))
    exact = a * low + high, a * number + low, low * high + a
    for found, wanted in zip(run.finish(), exact, strict=True):
        np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(np.float32))


def test_a_loop_makes_its_factors_once() -> None:
    run = TileRun("gfx950")
    k = run.k
    x, total = run.tile("x", (32, 32), lanes("gfx950", "f32"), real(32, 32)), run.tile("total", (32, 32), lanes("gfx950", "f32"),
                                                                                      np.zeros((32, 32)))

    def step(t: StepIndex) -> None:
        with k.stage():
            fma(k, total, x, 0.3, total, at=t)

    k.pipeline(step, 3, InOrder())
    run.give(total)
    names = [item.name for item in k.program().instructions]
    assert names.count("v_pk_fma_f32") % 8 == 0 and "v_fma_f32" not in names
    expected = np.zeros((32, 32))
    for _ in range(3):
        expected = (real(32, 32) * float(np.float32(0.3)) + expected).astype(np.float32).astype(np.float64)
    np.testing.assert_array_equal(run.finish()[0], expected)


# ---- random words ----


def reference(counter: tuple[int, int, int, int], key: tuple[int, int], rounds: int) -> tuple[int, int, int, int]:
    """Philox 4x32 as docs/facts/draws.md section 1 gives it."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(rounds):
        one, other = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = other >> 32 ^ c1 ^ k0, other & 0xFFFFFFFF, one >> 32 ^ c3 ^ k1, one & 0xFFFFFFFF
        k0, k1 = k0 + 0x9E3779B9 & 0xFFFFFFFF, k1 + 0xBB67AE85 & 0xFFFFFFFF
    return c0, c1, c2, c3


KNOWN = (  # Random123's kat_vectors: rounds, counter, key, result
    (7, (0, 0, 0, 0), (0, 0), (0x5F6FB709, 0x0D893F64, 0x4F121F81, 0x4F730A48)),
    (10, (0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (10, (0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (10, (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0), (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)))


@pytest.mark.parametrize(("rounds", "counter", "key", "result"), KNOWN)
def test_the_reference_gives_the_published_words(rounds: int, counter: tuple[int, int, int, int], key: tuple[int, int],
                                                 result: tuple[int, ...]) -> None:
    assert reference(counter, key, rounds) == result


@pytest.mark.parametrize("rounds", [7, 10])
@pytest.mark.parametrize("arch", ARCHS)
def test_random_words(arch: str, rounds: int) -> None:
    """Counters of tiles, an SGPR and a number; then a counter whose words are the results, which other keys scramble."""
    run = TileRun(arch)
    k = run.k
    first, third = whole(16, 32, 5), whole(16, 32, 6)
    x, z = run.tile("x", (16, 32), lanes(arch), first), run.tile("z", (16, 32), lanes(arch), third)
    out = [run.tile(f"out{number}", (16, 32), lanes(arch)) for number in range(4)]
    seed, fourth = (scalar(run, 0xA4093822, "low"), scalar(run, 0x299F31D0, "high")), scalar(run, 0xFFFFFFFF, "fourth")
    philox(k, out, (x, 12, z, fourth), seed, rounds)
    for one in out:
        run.give(one)
    philox(k, (x, *out[1:]), (x, z, *out[2:]), (0xFFFFFFFF, 3), rounds)
    for one in (x, *out[1:]):
        run.give(one)
    found = [words(one) for one in run.finish()]
    for at in np.ndindex(16, 32):
        a, c = int(words(first)[at]), int(words(third)[at])
        once = reference((a, 12, c, 0xFFFFFFFF), (0xA4093822, 0x299F31D0), rounds)
        assert tuple(int(one[at]) for one in found[:4]) == once
        assert tuple(int(one[at]) for one in found[4:]) == reference((a, c, *once[2:]), (0xFFFFFFFF, 3), rounds)
    each = {name: sum(item.name == name for item in run.program.instructions) for name in ("v_mad_u64_u32", "v_bitop3_b32")}
    assert each == {"v_mad_u64_u32": 2 * 2 * rounds * 8, "v_bitop3_b32": 2 * 2 * rounds * 8 if arch == "gfx950" else 0}
