"""Products whose rows lie so far apart that a tile spans 4 GiB: both sides of each limit; and D in the place of C."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from asmgen.author.contract.contract import ContractError, Parameter
from asmgen.author.epilogue.stores import Corner, store
from asmgen.author.ops.movement import fill, read
from asmgen.author.ops.tilememory import load, store_tile
from asmgen.author.tiles.swizzles import DmaFill, FragmentRead
from asmgen.author.tiles.tiles import TileError
from asmgen.emulator.machine.devicememory import Memory
from tests.emulator_launch import launch
from tests.far_rows import faults
from tests.far_strides import FarDevice, FarMatrix, built, far_builder

PING_PONG = (("schedule", "ping-pong"), ("tile", "256x256x64"))
INTERLEAVE = (("schedule", "interleave"), ("tile", "256x256x64"))
FAST = {"m": 256, "n": 259, "k": 64}  # the second tile has cut columns
SLOW = FAST | {"alpha": 2.0, "beta": -1.0}
F32 = (("out", "f32"),)
ROLES = (("schedule", "producer-consumer"), ("tile", "192x256x64"), *F32)
FEW = (("schedule", "in-order"), ("tile", "64x64x32"), *F32)

CASES: list[tuple[str, str, tuple[tuple[str, Any], ...], list[dict[str, Any]]]] = [
    # Rows of 2^22 f32, or of 2^23 bf16: 256 of them take 4 GiB. At 4210752 of f32 the last one's first byte is 2^32.
    ("gemm-bf16", "gfx950", (*PING_PONG, *F32), [
        FAST | {"ldd": (1 << 22) - 4}, FAST | {"ldd": 1 << 22}, FAST | {"m": 257, "ldd": 4210752}]),
    ("gemm-bf16", "gfx942", PING_PONG, [FAST | {"ldd": 8421504}, SLOW | {"ldd": 8421500, "ldc": 8454664}]),
    ("gemm-bf16", "gfx950", INTERLEAVE, [FAST | {"ldd": (1 << 23) - 4}, SLOW | {"lda": 16777208, "ldb": 16777208, "ldc": (1 << 24) - 1}]),
    ("gemm-fp8", "gfx950", (("tile", "256x256x128"), ("schedule", "ping-pong"), *F32), [FAST | {"k": 128, "ldd": 4210752}]),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_tiles_that_span_four_gib(case: int) -> None:
    name, arch, build, shapes = CASES[case]
    with FarDevice(arch) as far:
        for number, shape in enumerate(shapes):
            far.check(built(name, arch, build), shape, seed=number)


@pytest.mark.parametrize(("name", "arch", "build"), [
    ("gemm-bf16", "gfx950", (*PING_PONG, *F32)), ("gemm-bf16", "gfx950", ROLES), ("gemm-bf16", "gfx950", FEW),
])
def test_the_largest_strides_of_a_contract(name: str, arch: str, build: tuple[tuple[str, Any], ...]) -> None:
    """All at once are right, and the next ones are refused."""
    contract = built(name, arch, build).kernel.contract
    most = {name: int(contract.parameter(name).maximum or 0) for name in ("lda", "ldb", "ldd", "ldc")}
    assert all(stride >= (1 << 24) - 8 for stride in most.values())
    with FarDevice(arch, "random:1") as far:
        far.check(built(name, arch, build), {"m": 193, "n": 257, "k": 64, "beta": 2.0, **most})
    for stride, value in most.items():
        with pytest.raises(ContractError, match=f"{stride} must be at most {value}"):
            contract.resolve_run({"m": 1, "n": 1, "k": 64, stride: value + contract.parameter(stride).multiple_of})


@pytest.mark.parametrize(("arch", "build"), [
    ("gfx950", (("tile", "64x64x64"),)), ("gfx942", PING_PONG), ("gfx950", ROLES), ("gfx950", FEW),
])
def test_d_in_the_place_of_c(arch: str, build: tuple[tuple[str, Any], ...]) -> None:
    """Lanes of cut columns do not load what other waves store: the elements of C beyond n, which begin the next row where ldc is n."""
    with FarDevice(arch) as far:
        for shape in ({"n": 131}, {"n": 256}, {"n": 300, "ldd": 304, "ldc": 304, "alpha": 2.0}):
            far.check(built("gemm-bf16", arch, build), {"m": 130, "k": 64, "beta": -1.0, **shape}, in_place=True)


@pytest.mark.parametrize(("stride", "columns"), [(64, 64), (528, 64), (16777208, 64), (16777208, 16777152)])
def test_a_fill_reaches_the_last_byte_that_32_bits_count(stride: int, columns: int) -> None:
    """128 rows take 2^32 - 2160 bytes at the largest stride and K, so that none are left for what immediates take off offsets; rows that
    lie close need those."""
    numbers = ("m", "columns", "width", "stride")
    k, M = far_builder(numbers, Parameter("stride", "run", int, "", minimum=64, maximum=16777208, multiple_of=8))
    held = k.shared("held", "bf16", 128, 64, serves=(FragmentRead(M.a), DmaFill()))[()]
    x = k.tile("x", 32, 64, M.a)
    fill(k, held, k.matrix("a", "bf16", "m", "columns", "stride").rows(k.ids["y"], 128).k())
    k.s_waitcnt(vmcnt=0)
    k.s_barrier()
    read(k, x, held.part(k.wave))
    store_tile(k, k.matrix("d", "bf16", "m", "width", "width").rows(k.ids["y"], 128), x, rows=k.wave)
    k.s_endpgm()
    a = FarMatrix(128, 64, stride, np.int16)
    a.rows[:] = np.random.default_rng(1).integers(-999, 999, (128, 64))
    memory = Memory()
    memory.register(a.address, a.nbytes, "a")
    kernel = k.finish()
    done = launch("gfx950", kernel.program, (1, 1, 1), (256, 1, 1), [np.zeros((128, 64), np.int16)],
                  [a.address & 0xFFFFFFFF, a.address >> 32, 128, columns, 64, stride], kernel.resources.lds_bytes, memory=memory)
    assert not done.findings
    np.testing.assert_array_equal(done.buffers[0].view(np.int16).reshape(128, 64), a.rows)


def test_rows_that_32_bits_do_not_reach_are_refused() -> None:
    """128 rows of 2^25 bytes take 2^32, one more than a descriptor shows; 127 fit."""
    limit = Parameter("stride", "run", int, "", maximum=1 << 24)
    for count in (127, 128):
        k, _ = far_builder(("m", "columns", "stride"), limit)
        rows = k.matrix("a", "bf16", "m", "columns", "stride").rows(k.ids["y"], count)
        if count == 127:
            rows.resource(k)
            continue
        with pytest.raises(TileError, match="128 rows of a, up to 16777216 elements apart.*at most 127 rows, or .* at most 16777215 "):
            rows.resource(k)


def test_a_limit_wants_offsets_that_no_row_has() -> None:
    """128 rows of 2^25 - 2 bytes fit, but leave no offset beyond the descriptor for what the limit cuts."""
    k, M = far_builder(("m", "columns", "stride"), Parameter("stride", "run", int, "", maximum=(1 << 24) - 1))
    rows, x = k.matrix("a", "bf16", "m", "columns", "stride").rows(k.ids["y"], 128), k.tile("x", 32, 64, M.a)
    for move in (lambda **more: load(k, x, rows, **more), lambda **more: store_tile(k, rows, x, **more)):
        move()
        with pytest.raises(TileError, match="128 rows of a, up to 16777215 elements apart, and 8192 bytes take 4294975232 bytes"):
            move(limit=60)


@pytest.mark.parametrize(("rows", "columns", "stride"), [(100, 128, (1 << 24) - 4), (70, 77, (1 << 24) - 1), (70, 128, 128)])
def test_store_gives_waves_descriptors_of_their_own(rows: int, columns: int, stride: int) -> None:
    """128 rows of up to 2^26 bytes: a wave has 32 in either half. Those of the last rows' waves that begin behind row 70 have none."""
    k, M = far_builder(("m", "n", "stride"), Parameter("stride", "run", int, "", maximum=(1 << 24) - 1))
    wm, wn = k.wave_grid(2, 2)
    zero_row = k.registers.sgprs(1, "zero_row")
    k.s_mov_b32(zero_row, 0)
    C = k.tile("C", 32, 32, M.d.T, grid=(2, 2))
    for number, register in enumerate(register for tile in C for register in tile.registers):
        k.v_mov_b32(register, 256 * number)
        k.v_lshl_add_u32(register, k.wave.register, 6, register)
        k.v_add_u32(register, k.lane, register)
    corners = [Corner(C[i, j], 64 * i, 64 * j) for i in range(2) for j in range(2)]
    store(k, k.matrix("d", "f32", "m", "n", "stride").rows(zero_row, 128), zero_row, corners, wm, wn, 128)
    k.s_endpgm()
    expected = np.zeros((128, 128), np.int32)
    for place, (wave, corner, row, column, item) in enumerate(np.ndindex(4, 4, 2, 2, 4)):
        at = np.array(M.d.T.table[item])
        down, right = 64 * (corner // 2) + 32 * (wave // 2) + 16 * row, 64 * (corner % 2) + 32 * (wave % 2) + 16 * column
        expected[down + at[:, 0], right + at[:, 1]] = 256 * (place % 64) + 64 * wave + np.arange(64)
    d = FarMatrix(128, columns, stride, np.int32)
    d.rows[:] = 0
    before, memory, kernel = d.resident(), Memory(), k.finish()
    memory.register(d.address, d.nbytes, "d")
    done = launch("gfx950", kernel.program, (1, 1, 1), (256, 1, 1), [],
                  [d.address & 0xFFFFFFFF, d.address >> 32, 0, 0, rows, columns, stride], vgprs=256, memory=memory)
    assert not done.findings
    np.testing.assert_array_equal(d.rows[:rows], expected[:rows, :columns])
    assert not d.rows[rows:].any() and d.resident() == before


@pytest.mark.slow
def test_groups_of_rows_may_lie_4_gib_apart() -> None:
    """4 waves with a row of bf16 each: at a stride of 2^29 a group of rows takes 2^32 bytes, whose lower 32 bits are 0."""
    strides = [{"x_stride": first, "d_stride": second} for first, second in (((1 << 29) - 4, 1 << 29), (1 << 29, (1 << 30) - 4100))]
    assert not faults("softmax", "gfx950", {"lanes": 64}, strides)
