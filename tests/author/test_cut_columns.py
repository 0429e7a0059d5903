"""`load` and `store_tile` with a limit: every limit over small tiles, odd ones too, of each element size, with fixed and odd strides.

A launch has a workgroup for each limit, from -1 to beyond the last column; each loads the same rows and stores them in its own.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
import pytest

from asmgen.author.ops.conversions import convert
from asmgen.author.ops.elementwise import add
from asmgen.author.ops.masks import lane_coordinate
from asmgen.author.ops.tilememory import load, store_tile
from asmgen.author.schedule.schedules import InOrder
from asmgen.author.step.iterations import StepIndex
from asmgen.author.tiles.fragments import Fragment, mfma
from asmgen.author.tiles.globals import Matrix
from asmgen.author.tiles.views import block_fragment, with_dtype
from asmgen.emulator.scheduling.run import Options
from asmgen.isa.layouts_mfma import element_bits
from asmgen.regalloc.shortage import OutOfRegisters
from tests.emulator_launch import Launched, launch
from tests.tile_harness import POINTERS, Array, TileRun

FROM, AT = 4, 8  # first column that is loaded, and to which it is stored
WIDTHS = {8: np.uint8, 16: np.uint16, 32: np.uint32}


@dataclass(frozen=True)
class Form:
    """A fragment, and how many across; `file` of the tile's registers, and the wait mode of its load: in any mode the load has the waits
    that it needs by itself."""

    arch: str
    dtype: str
    fragment: Callable[[str], Fragment]
    across: int = 2
    file: str = "v"
    waits: str = "auto"


FORMS = {
    "bf16 of 4": Form("gfx942", "bf16", lambda arch: mfma("f32_16x16x16_bf16", arch).a, waits="off"),
    "bf16 of 8": Form("gfx950", "bf16", lambda arch: mfma("f32_16x16x32_bf16", arch).a),
    "f16 of 4, twice a lane": Form("gfx950", "f16", lambda arch: with_dtype(mfma("f32_32x32x8_f16", arch).d.T, "f16"), 1, "a"),
    "bf16 of 2": Form("gfx942", "bf16", lambda arch: block_fragment(mfma("f32_16x16x16_bf16", arch).a, 2, 2, 8)),
    "f32 of 4": Form("gfx942", "f32", lambda arch: mfma("f32_32x32x8_f16", arch).d.T, 1),
    "i32 of 1": Form("gfx950", "i32", lambda arch: with_dtype(mfma("f32_16x16x16_bf16", arch).d, "i32")),
    "fp8 of 8": Form("gfx942", "fp8", lambda arch: mfma("f32_16x16x32_fp8_fp8", arch).a, waits="off"),
    "i8 of 16": Form("gfx950", "i8", lambda arch: mfma("i32_16x16x64_i8", arch).a, 1),
    "i8 of 8 in AGPRs": Form("gfx950", "i8", lambda arch: mfma("i32_16x16x32_i8", arch).a, 2, "a"),
}


class Kernel:
    """Loads a tile a wave, of two waves side by side, and stores it three times: whole, bounded, and (`odd`) bounded with an odd stride."""

    def __init__(self, form: Form, odd: bool = True) -> None:
        f = form.fragment(form.arch)
        self.form, self.type = form, WIDTHS[element_bits(form.dtype)]
        self.rows, self.width, self.fragment = f.rows, 2 * form.across * f.columns, f
        self.stride, self.odd = self.width + 2 * AT, self.width + 2 * AT + 1
        run = TileRun(form.arch, 2, [0, 0])
        k = run.k
        _, columns = k.wave_grid(1, 2)
        limit, row, none, at = (k.registers.sgprs(1, name) for name in ("limit", "row", "none", "first_stored_column"))
        k.s_add_u32(limit, k.ids["x"], k.argument("v0"))
        k.s_mul_i32(row, k.ids["x"], self.rows)
        k.s_mov_b32(none, 0)
        k.s_mov_b32(at, AT)
        x = run.tile("x", (self.rows, form.across * f.columns), f, file=form.file)
        source = replace(self._matrix(run, "p2", self.rows - 3, self.stride), columns_register=k.argument("v1"))
        with k.waits(form.waits):
            load(k, x, source.rows(none, self.rows), columns=columns, column=FROM, limit=limit)
        whole, cut, third = (self._matrix(run, f"p{number}", 1 << 20, self.odd if number == 5 else self.stride).rows(row, self.rows)
                             for number in (3, 4, 5))
        store_tile(k, whole, x, columns=columns, column=AT)
        store_tile(k, cut, x, columns=columns, column=at, limit=limit)
        if odd:
            store_tile(k, third, x, columns=columns, column=AT, limit=limit)
        self.kernel = run.kernel()

    def _matrix(self, run: TileRun, name: str, rows: int, stride: int) -> Matrix:
        numbers = []
        for what, value in (("rows", rows), ("columns", stride), ("stride", stride)):
            reg = run.k.registers.sgprs(1, f"{name}_number_of_{what}")
            run.k.s_mov_b32(reg, value)
            numbers.append(reg)
        return Matrix(name, self.form.dtype, run.k.argument(name), *numbers)

    def launch(self, first: int, count: int, source: Array, columns: int = 0) -> Launched:
        """`count` workgroups with limits from `first` on; the matrix has that many columns, or as many as there is memory for."""
        buffers = [np.zeros(1, np.uint32), np.zeros(1, np.uint32), source,
                   *(np.full((count * self.rows, stride), 0xA5, self.type) for stride in (self.stride, self.stride, self.odd))]
        buffers += [np.zeros(1, np.uint32)] * (POINTERS - len(buffers))
        done = launch(self.form.arch, self.kernel.program, (count, 1, 1), (128, 1, 1), buffers, [first, columns or self.stride], vgprs=512,
                      options=Options(True, "lockstep"))
        assert not done.findings, [finding.sentence() for finding in done.findings][:3]
        return done

    def source(self) -> Array:
        """Every bit pattern, NaN and infinities too; no element is 0."""
        return np.random.default_rng(1).integers(1, 1 << element_bits(self.form.dtype), (self.rows, self.stride)).astype(self.type)

    def check(self, done: Launched, first: int, count: int, source: Array) -> None:
        """All three results of each limit."""
        for number in range(count):
            left = min(max(first + number, 0), self.width)
            loaded = np.zeros((self.rows, self.width), self.type)
            loaded[:self.rows - 3, :left] = source[:self.rows - 3, FROM:FROM + left]
            rows = slice(number * self.rows, (number + 1) * self.rows)
            for which, stored in ((3, self.width), (4, left), (5, left)):
                expected = np.full((self.rows, self.odd if which == 5 else self.stride), 0xA5, self.type)
                expected[:, AT:AT + stored] = loaded[:, :stored]
                np.testing.assert_array_equal(done.buffers[which][rows], expected, f"limit {first + number}, matrix {which}")

    def executed(self, done: Launched) -> Counter[str]:
        """How often waves executed each kind of load and store."""
        found: Counter[str] = Counter()
        for instruction, count in zip(done.result.program.instructions, done.result.counts, strict=True):
            if instruction.name.startswith("buffer_"):
                found[instruction.name] += count
        return found


@functools.cache
def built(name: str) -> Kernel:
    return Kernel(FORMS[name])


@pytest.mark.parametrize("name", FORMS)
def test_every_limit(name: str) -> None:
    kernel = built(name)
    source, count = kernel.source(), kernel.width + 3
    kernel.check(kernel.launch(-1, count, source), -1, count, source)


@pytest.mark.parametrize(("name", "limit"), [
    ("bf16 of 4", 17), ("bf16 of 8", 63), ("f16 of 4, twice a lane", 41), ("f32 of 4", 37), ("i8 of 16", 67), ("i8 of 8 in AGPRs", 93)])
def test_nothing_beyond_the_limit_is_touched(name: str, limit: int) -> None:
    """Memory ends behind the last column in front of the limit of the last row; the descriptor goes on, or ends there too."""
    kernel = built(name)
    source = kernel.source()
    last = (kernel.rows - 4) * kernel.stride + FROM + limit
    for columns in (kernel.stride, FROM + limit):
        done = kernel.launch(limit, 1, source.reshape(-1)[:last].copy(), columns)
        kernel.check(done, limit, 1, source)


# What one wave executes more where the limit cuts a fragment of it behind 5 columns: loads and stores.
MORE = {
    # Lanes of 8 in 4 dwords, then the half; 8 elements.
    "bf16 of 8": {"buffer_load_dword": 4, "buffer_load_ushort": 1, "buffer_store_short": 4, "buffer_store_short_d16_hi": 4},
    # Four pieces of 4.
    "f32 of 4": {"buffer_load_dword": 16, "buffer_store_dword": 16},
    # 4 dwords, then a byte; 16 elements, two in each half.
    "i8 of 16": {"buffer_load_dword": 4, "buffer_load_ubyte": 1, "buffer_store_byte": 8, "buffer_store_byte_d16_hi": 8},
}


@pytest.mark.parametrize("name", MORE)
def test_only_the_fragment_that_is_cut_goes_by_less(name: str) -> None:
    """All else goes as wide as without a limit, and a limit between fragments costs no access."""
    kernel = Kernel(FORMS[name], odd=False)
    source, size = kernel.source(), kernel.fragment.columns
    whole, between, inside = (kernel.executed(kernel.launch(limit, 1, source)) for limit in (kernel.width, size, size + 5))
    wide = 2 * FORMS[name].across * kernel.fragment.registers // 4
    assert +whole == +between == {"buffer_load_dwordx4": wide, "buffer_store_dwordx4": 2 * wide}
    assert inside - whole == MORE[name]


@pytest.mark.parametrize("within", [False, True])
def test_what_is_loaded_in_a_loop(within: bool) -> None:
    """A load with an odd limit two steps ahead of its use in a pipeline, and `within` a block of the author's own."""
    rows, steps = 16, 5
    run = TileRun("gfx942")
    k = run.k
    f = mfma("f32_16x16x16_bf16", "gfx942").a
    values = np.random.default_rng(2).integers(-99, 99, (rows * steps, 40)).astype(np.float64)
    none, count, columns = (k.registers.sgprs(1, name) for name in ("none", "count", "columns"))
    for register, value in ((none, 0), (count, rows * steps), (columns, 40)):
        k.s_mov_b32(register, value)
    walk = Matrix("p2", "bf16", k.argument(run.matrix(values, "bf16")), count, columns, columns).walk(none, rows)
    R = k.tile("R", rows, 32, f, stages=3)
    wide, total = (run.tile(name, (rows, 32), with_dtype(f, "f32"), np.zeros((rows, 32))) for name in ("wide", "total"))

    def step(t: StepIndex) -> None:
        with k.stage(), k.block("own") if within else nullcontext():
            load(k, R[t + 2], walk.step(t + 2), limit=21)
        with k.stage():
            convert(k, wide, R[t])
            add(k, total, total, wide)

    k.pipeline(step, steps, InOrder())
    run.give(total)
    expected = np.zeros((rows, 32))
    expected[:, :21] = values.reshape(steps, rows, 40).sum(0)[:, :21]
    np.testing.assert_array_equal(run.finish()[0], expected)


def test_where_registers_run_short_a_bounded_access_keeps_its_lanes_column() -> None:
    """However few registers are left, it is built, or finds no register; it never takes the one that it still compares with."""
    f = FORMS["i8 of 16"].fragment("gfx950")
    built = []
    for left in range(1, 15):
        run = TileRun("gfx950", 1, [0])
        k = run.k
        sizes = k.registers.sgprs(1, "sizes")
        matrix = Matrix("p2", "i8", k.argument("p2"), sizes, sizes, sizes)
        x = run.tile("x", (4 * f.rows, f.columns), f)
        with lane_coordinate(k, f, 1):
            pass
        k.registers.vgprs(k.registers.left("v") - left, "others")
        try:
            load(k, x, matrix.rows(sizes, x.rows), limit=sizes)
        except OutOfRegisters:
            continue
        built.append(left)
    assert built == list(range(built[0], 15))
