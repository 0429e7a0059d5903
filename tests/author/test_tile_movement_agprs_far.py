"""Movement of tiles in the emulator, the rarer ways: accumulation registers, LDS-DMA of 12 bytes a lane, tensors beyond 4 GiB."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from asmgen.author.ops.movement import fill, read, write
from asmgen.author.ops.tilememory import load, store_tile
from asmgen.author.ops.transposed import read_transposed
from asmgen.author.tiles.fragments import mfma
from asmgen.author.tiles.swizzles import DmaFill, FragmentRead, plain
from asmgen.author.tiles.tiles import TileError
from asmgen.author.tiles.transposing import TransposedRead
from asmgen.author.tiles.views import as_bytes
from asmgen.isa.layouts_mfma import element_bits
from asmgen.isa.placement import Pads, Placement
from asmgen.isa.registers import a
from tests.author.test_tile_memory import WIDTH, fragment_of, matrix, number, packed_bytes, some
from tests.tile_harness import TileRun, codes_of, rounded

ADDRESSED = ("buffer_", "ds_")


@pytest.mark.parametrize("dtype", ["f32", "i32", "bf16", "f16", "fp8", "bf8", "i8"])
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_accumulation_registers_move_as_others(arch: str, dtype: str) -> None:
    """Memory to AGPRs, to LDS, back into others and to memory: no copy through a VGPR."""
    array = some(32, 64, dtype, 31)
    f = fragment_of(arch, dtype)
    run = TileRun(arch)
    k = run.k
    first = number(run, 0, "first_row_number")
    source, target = matrix(run, array, dtype, 32, 64), matrix(run, np.zeros((32, 64)), dtype, 32, 64)
    count = 32 * 64 * f.bits // 32 // 64
    x, y = run.tile("x", (32, 64), f, at=a[0:count - 1]), run.tile("y", (32, 64), f, at=a[count:2 * count - 1])
    load(k, x, source.rows(first, 32))  # type: ignore[arg-type]
    held = k.shared("held", dtype, 32, 64, serves=(FragmentRead(f),))[()]
    write(k, held, x, own=True)
    read(k, y, held, own=True)
    store_tile(k, target.rows(first, 64), y)  # type: ignore[arg-type]
    run.give(y)
    np.testing.assert_array_equal(run.finish()[0], rounded(array, dtype, arch))
    np.testing.assert_array_equal(run.done.buffers[3], codes_of(array, dtype, arch).astype(WIDTH[element_bits(dtype)]))
    _only_accumulators_move(run)


@pytest.mark.parametrize(("dtype", "code"), [("fp4", 4), ("fp6", 2)])
def test_small_types_move_through_accumulation_registers(dtype: str, code: int) -> None:
    """Of 4 and 6 bits, as bytes."""
    f = mfma("f32_32x32x64_f8f6f4", "gfx950", cbsz=code).a
    values = some(32, 128, dtype, code)
    data = packed_bytes(values, dtype, "gfx950")
    run = TileRun("gfx950")
    k = run.k
    first = number(run, 0, "first_row_number")
    count = 2 * f.registers
    x, y = run.tile("x", (32, 128), f, at=a[0:count - 1]), run.tile("y", (32, 128), f, at=a[count:2 * count - 1])
    load(k, as_bytes(x), matrix(run, data.astype(np.int8), "i8", *data.shape).rows(first, 32))  # type: ignore[arg-type]
    held = k.shared("held", "i8", 32, data.shape[1], pads=False)[()]
    write(k, held, as_bytes(x), own=True)
    read(k, as_bytes(y), held, own=True)
    run.give(y)
    np.testing.assert_array_equal(run.finish()[0], rounded(values, dtype, "gfx950"))
    _only_accumulators_move(run)


def _only_accumulators_move(run: TileRun) -> None:
    moving = [item for item in run.program.instructions if item.name.startswith(ADDRESSED)]
    assert moving and all(any(getattr(part, "file", "") == "a" for part in item.operands) for item in moving)
    assert not [item for item in run.program.instructions if "accvgpr" in item.name]


@pytest.mark.parametrize("shape", ["f32_32x32x64_f8f6f4", "f32_16x16x128_f8f6f4"])
@pytest.mark.slow_after_first
def test_twelve_bytes_a_lane_from_memory_to_lds(shape: str) -> None:
    """Rows of 6-bit elements in slots of 16 bytes, which b96 transposing reads take without a conflict."""
    f = mfma(shape, "gfx950", cbsz=2).a
    values = some(f.columns, 128, "fp6", 3)
    data = packed_bytes(values, "fp6", "gfx950")
    run = TileRun("gfx950")
    k = run.k
    held = k.shared("V", "i8", *data.shape, serves=(TransposedRead(f), DmaFill(12)))
    fill(k, held[()], matrix(run, data.astype(np.int8), "i8", *data.shape).rows(number(run, 0, "first"), f.columns).k())  # type: ignore[arg-type]
    k.s_waitcnt(vmcnt=0)
    k.s_barrier()
    x = run.tile("x", (128, f.columns), f)
    read_transposed(k, x, held[()])
    run.give(x)
    np.testing.assert_array_equal(run.finish()[0], rounded(values, "fp6", "gfx950").T)
    names = [item.name for item in run.program.instructions if item.modifiers.get("lds")]
    assert names == ["buffer_load_dwordx3"] * (data.size // 768) and not any(run.done.result.bank_conflicts.values())


def test_slots_of_twelve_bytes_are_not_filled_on_gfx942() -> None:
    run = TileRun("gfx942")
    held = run.k.shared("V", "i8", 64, 96, placement=Placement(plain(64, 96, 8), pads=Pads(((12, 4),))))
    rows = matrix(run, np.zeros((64, 96)), "i8", 64, 96).rows(number(run, 0, "first"), 64)  # type: ignore[arg-type]
    with pytest.raises(TileError, match="slots of 12 bytes, which gfx942 does not fill"):
        fill(run.k, held[()], rows.k())


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_rows_beyond_four_gib_of_a_tensor(arch: str) -> None:
    """Rows from number 40,960 on of 128 KiB each: the tensor begins 5 GiB before the buffer. Two of 32 rows lie behind its end."""
    array = some(32, 1 << 15, "f32", 41)
    run = TileRun(arch)
    k = run.k
    first = number(run, 40960, "first_row_number")
    f = fragment_of(arch, "f32")
    views = []
    for values in (array, np.zeros_like(array)):
        view = matrix(run, values, "f32", 40960 + 30, 1 << 15)
        pointer = k.registers.sgprs(2, f"{view.name}_begins")
        k.s_sub_u32(pointer[0], view.pointer[0], 5 << 30 & 0xFFFFFFFF)
        k.s_subb_u32(pointer[1], view.pointer[1], 5 << 30 >> 32)
        views.append(replace(view, pointer=pointer).rows(first, 32))  # type: ignore[arg-type]
    source, target = views
    x, y = run.tile("x", (32, 32), f), run.tile("y", (32, 32), f)
    load(k, x, source, column=12)
    held = k.shared("held", "f32", 32, 32)
    fill(k, held[()], source.k())
    k.s_waitcnt(vmcnt=0)
    k.s_barrier()
    read(k, y, held[()])
    store_tile(k, target, x, column=12, nontemporal=True)
    run.give(x)
    run.give(y)
    shown = rounded(array, "f32", arch)
    shown[30:] = 0
    for found, column in zip(run.finish(), (12, 0), strict=True):
        np.testing.assert_array_equal(found, shown[:, column:column + 32])
    stored = np.zeros((32, 1 << 15))
    stored[:30, 12:44] = shown[:30, 12:44]
    np.testing.assert_array_equal(run.done.buffers[3].view(np.float32), stored)
