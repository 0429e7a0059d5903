"""Stores of accumulators: every D layout that has runs of columns, one, two or four fragments across, each type, whole and cut columns.

Where a lane's elements stand is typed here, from docs/facts/instructions.md section 2.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from asmgen.author.builders.tilebuilder import TileBuilder
from asmgen.author.epilogue.stores import Corner, store, store_whole
from asmgen.author.tiles.fragments import Fragment, mfma
from asmgen.author.tiles.globals import Matrix
from asmgen.author.tiles.tiles import Tile, TileError
from asmgen.author.tiles.views import block_fragment, deep
from asmgen.emulator.scheduling.run import Options
from asmgen.isa.errors import OperandError
from asmgen.isa.opcodes.mfma import MFMA
from asmgen.isa.registers import Reg
from tests.emulator_launch import launch
from tests.tile_harness import Array, TileRun, codes_of, values_of

DOWN, WAVES = 2, 2  # fragments of a tile below each other, waves side by side
ARCHS = ("gfx942", "gfx950")
SENTINEL = 0x5A


@dataclass(frozen=True)
class Form:
    """A fragment of f32: its size, and (row, column) of an item of a lane."""

    rows: int
    columns: int
    items: int
    place: Callable[[int, int], tuple[int, int]]
    fragment: Callable[[str], Fragment]


FORMS = {
    "16x16.T": Form(16, 16, 4, lambda lane, item: (lane % 16, 4 * (lane // 16) + item), lambda arch: mfma("f32_16x16x16_bf16", arch).d.T),
    "32x32.T": Form(32, 32, 16, lambda lane, item: (lane % 32, 8 * (item // 4) + 4 * (lane // 32) + item % 4),
                    lambda arch: mfma("f32_32x32x8_f16", arch).d.T),
    "deep 16x16.T": Form(16, 32, 8, lambda lane, item: (lane % 16, 8 * (lane // 16) + item),
                         lambda arch: deep(mfma("f32_16x16x16_bf16", arch).d.T, 2)),
    "block": Form(8, 32, 4, lambda lane, item: (lane // 8, 4 * (lane % 8) + item),  # neighbouring runs in lanes that no swap exchanges
                  lambda arch: block_fragment(mfma("f32_16x16x16_bf16", arch).d, 1, 4, 8)),
}


def numbers(rows: int, columns: int) -> Array:
    """Asymmetric values with what rounding and packing may lose."""
    found = np.random.default_rng(rows * columns).standard_normal((rows, columns)).astype(np.float32) * 300
    found[1, 2], found[3, 5], found[rows - 7, 1], found[2, columns - 1] = np.nan, np.inf, -np.inf, -0.0
    found[5, :8] = 1 + np.arange(8) / 256 + np.array([1, -1] * 4) / 2048  # about halfway between numbers of bf16 and f16
    found[6, :4] = [1 + 1 / 256, 1 + 3 / 256, 1 + 1 / 2048, 1 + 3 / 2048]  # ties
    return found


@dataclass(frozen=True)
class Size:
    """What of the matrix exists, and elements from row to row."""

    rows: int
    columns: int
    stride: int


class Store:
    """A kernel that stores 2 fragments x `across` fragments a wave, of two waves side by side, by `how`."""

    def __init__(self, arch: str, name: str, across: int, dtype: str, how: str, file: str = "v") -> None:
        form = self.form = FORMS[name]
        self.arch, self.dtype, self.across, self.how = arch, dtype, across, how
        self.height, self.width = DOWN * form.rows, WAVES * across * form.columns
        self.values = numbers(self.height, self.width)
        run = self.run = TileRun(arch, WAVES, values=[0, 0, 0])
        k = run.k
        rows, columns = k.wave_grid(1, WAVES)
        tile = run.tile("D", (self.height, across * form.columns), form.fragment(arch), file=file)
        self._fill(k, tile)
        zero = k.registers.sgprs(1, "zero")
        k.s_mov_b32(zero, 0)
        target = Matrix("p2", dtype, k.argument("p2"), k.argument("v0"), k.argument("v1"), k.argument("v2")).rows(zero, self.height)
        corners = [Corner(tile, 0, 0)]
        if how == "store":
            store(k, target, zero, corners, rows, columns, self.width)
        else:
            store_whole(k, target, zero, corners, rows, columns)
        self.program = run.kernel().program

    def _fill(self, k: TileBuilder, tile: Tile) -> None:
        """Each wave's accumulators, laid out here by hand: words[wave][register][lane]."""
        form = self.form
        rows, columns = np.array([[form.place(lane, item) for lane in range(64)] for item in range(form.items)]).transpose(2, 0, 1)
        self.words = np.concatenate([self.values[down * form.rows + rows, (wave * self.across + side) * form.columns + columns]
                                     for wave in range(WAVES) for down in range(DOWN) for side in range(self.across)]).view(np.uint32)
        pointer, count = k.argument("p1"), len(tile.registers.items)
        with k.scratch("jump", file="s") as jump, k.scratch("place") as place, k.scratch("word") as word:
            k.s_mul_i32(jump, k.wave.register, 256 * count)
            k.v_add_u32(place, jump, self.run.at)
            for register in tile.registers.items:
                self._word(k, register, word, place, pointer)

    @staticmethod
    def _word(k: TileBuilder, register: Reg, word: Reg, place: Reg, pointer: Reg) -> None:
        k.global_load_dword(word if register.file == "a" else register, place, pointer)
        if register.file == "a":
            k.v_accvgpr_write_b32(register, word)
        k.v_add_u32(place, 256, place)

    def stored(self, size: Size) -> Array:
        """The matrix's buffer, [height, stride]."""
        bits = {"bf16": 16, "f16": 16, "f32": 32}[self.dtype]
        buffer = np.full((self.height, size.stride), SENTINEL, {16: np.uint16, 32: np.uint32}[bits])
        done = launch(self.arch, self.program, (1, 1, 1), (64 * WAVES, 1, 1), [np.zeros(1, np.uint32), self.words, buffer,
                                                                              *[np.zeros(1, np.uint32)] * 9],
                      [size.rows, size.columns, size.stride], vgprs=512, options=Options(True, "lockstep"))
        assert not done.findings, [finding.sentence() for finding in done.findings][:3]
        return done.buffers[2]

    def expected(self, size: Size) -> Array:
        """What belongs there."""
        codes = codes_of(self.values, self.dtype, self.arch)
        found = np.full((self.height, size.stride), SENTINEL, np.uint32)
        found[:size.rows, :size.columns] = codes[:size.rows, :size.columns]
        return found

    def check(self, size: Size) -> None:
        """Numbers in their places, and nothing elsewhere."""
        found, expected = self.stored(size).astype(np.uint32), self.expected(size)
        np.testing.assert_array_equal(values_of(found, self.dtype, self.arch), values_of(expected, self.dtype, self.arch))

    def check_all(self) -> None:
        """Whole columns with rows cut, and for `store` cut columns, a stride that wide stores do not take, and half of the tile."""
        height, width = self.height, self.width
        self.check(Size(height - 5, width, width + 8))
        if self.how == "store":
            self.check(Size(height - 5, width - 3, width + 5))
            self.check(Size(height, width, width + 3))
            self.check(Size(1, width - width // 2 - 1, width))


def every(sample: bool) -> Iterator[tuple[str, str, int, str, str, str]]:
    """(architecture, form, fragments across, type, how, registers) of all stores, or of those that the suite takes."""
    for arch, name, across, dtype, how in itertools.product(ARCHS, FORMS, (1, 2, 4), ("bf16", "f16", "f32"), ("store", "store_whole")):
        traded = arch == "gfx950" and (dtype, how) in (("bf16", "store"), ("f16", "store_whole"))
        if not sample or traded or across == 2 and (arch, dtype, how) in (("gfx942", "bf16", "store"), ("gfx942", "f16", "store_whole"),
                                                                         ("gfx950", "f32", "store")):
            yield from ((arch, name, across, dtype, how, file) for file in ("av"[across % 2] if sample else "va"))


@pytest.mark.parametrize(("arch", "name", "across", "dtype", "how", "file"), list(every(True)))
@pytest.mark.slow_after_first
def test_numbers_go_to_their_places(arch: str, name: str, across: int, dtype: str, how: str, file: str) -> None:
    Store(arch, name, across, dtype, how, file).check_all()


@pytest.mark.parametrize(("name", "across", "swap"), [
    ("16x16.T", 1, ""), ("16x16.T", 2, "v_permlane16_swap_b32"), ("32x32.T", 1, "v_permlane32_swap_b32"),
    ("32x32.T", 4, "v_permlane32_swap_b32"), ("deep 16x16.T", 2, ""), ("block", 2, ""),
])
def test_lanes_trade_where_a_swap_exchanges_what_tells_their_runs_apart(name: str, across: int, swap: str) -> None:
    """With a trade, or with eight columns from the start, all stores move 16 bytes a lane."""
    instructions = Store("gfx950", name, across, "bf16", "store_whole").program.instructions
    assert {one.name for one in instructions if "permlane" in one.name} == {swap} - {""}
    wide = swap or name.startswith("deep")
    assert {one.name for one in instructions if one.name.startswith("buffer_store")} == {f"buffer_store_dwordx{4 if wide else 2}"}


def test_every_accumulator_has_one_of_these_forms_or_is_refused() -> None:
    """M.d.T of every instruction with f32 results; M.d itself holds single columns, and one of several blocks is no fragment."""
    lanes = range(64)
    for name, row in MFMA.items():
        arch = sorted(row.archs)[-1]
        if row.cd_type != "f32":
            continue
        if row.blocks > 1:
            with pytest.raises(OperandError, match=f"{name} multiplies {row.blocks} blocks"):
                mfma(name, arch)
            continue
        form, transposed = FORMS[f"{row.m}x{row.n}.T"], mfma(name, arch).d.T
        assert transposed.table == tuple(tuple(form.place(lane, item) for lane in lanes) for item in range(form.items)), name


@pytest.mark.parametrize(("fragment", "words"), [
    (mfma("f32_16x16x16_bf16", "gfx950").d, "runs of 1 columns in a lane, and stores want 2, 4 or 8 of f32; use M.d.T"),
    (mfma("i32_16x16x32_i8", "gfx950").d.T, "runs of 4 columns in a lane, and stores want 2, 4 or 8 of f32"),
])
def test_what_has_no_runs_of_f32_is_refused(fragment: Fragment, words: str) -> None:
    run = TileRun("gfx950")
    k = run.k
    zero = k.registers.sgprs(1, "zero")
    target = Matrix("p2", "bf16", k.argument("p2"), zero, zero, zero).rows(zero, 16)
    rows, columns = k.wave_grid(1, 1)
    with pytest.raises(TileError, match=words):
        store(k, target, zero, [Corner(run.tile("D", (16, 16), fragment), 0, 0)], rows, columns, 16)


if __name__ == "__main__":  # all of them, half a minute: python -m tests.author.test_epilogue
    for case in every(False):
        Store(*case).check_all()
    print(f"{len(list(every(False)))} kernels store what they should")
