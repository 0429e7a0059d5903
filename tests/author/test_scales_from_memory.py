"""An MXFP4 product of 256 x 256 on four waves, written with what an author has: B and all scales go straight from memory to registers.

Each wave has 256 rows of A, which all waves share through LDS, and 64 of B. B lies as fragments do, 1 KiB each, and scales as a lane reads
them, in dwords; both arrive a step ahead. The schedule modulo places all of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asmgen as ag
from asmgen.emulator.scheduling.run import Options
from asmgen.emulator.scheduling.trace import Trace
from asmgen.isa.layouts_mfma import element_bits
from asmgen.isa.timing import timing
from asmgen.model.profile import profile
from tests.emulator_launch import launch

Array = np.ndarray[Any, Any]
SIZE, DEPTH, STEPS = 256, 256, 12
GROUP = 32  # rows whose scales of a step are a dword a lane
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


def product(shape: str) -> ag.Kernel:
    """D = A B^T of matrices with scales, `steps` steps of 256 columns."""
    pointers = tuple(ag.ContractArgument(name, "pointer", "") for name in ("a", "b", "scale_a", "scale_b", "d"))
    contract = ag.KernelContract("scales-from-memory", "test", ("gfx950",), (), (*pointers, ag.ContractArgument("steps", "u32", "")),
                                 (4 * ag.LANES, 1, 1), ag.Formula("one", lambda _: (1, 1, 1)))
    k = ag.TileBuilder(contract, "gfx950", {}, workgroup_ids="x")
    M = k.matrix_shape(f"scale_f32_{shape}_f8f6f4", cbsz=4, blgp=4)
    rows, half, own = M.a.rows, SIZE // 2, SIZE // 4
    C = k.tile("C", half, own, M.d.T, grid=(2,), file="a", note="[half of A's rows]")
    A = k.tile("A", half, DEPTH, M.b, grid=(2,))
    fragments = ag.block_fragment(ag.with_dtype(M.a, "i8"), 1, 16, ag.LANES)
    B = k.tile("B", own // rows, rows * DEPTH // 2, fragments, stages=2)
    SA = k.tile("SA", 1, 4 * ag.LANES, ag.scale_words(M, 4), grid=(2,), stages=2)
    SB = k.tile("SB", 1, 2 * ag.LANES, ag.scale_words(M, 2), stages=2)
    As = k.shared("As", "fp4", half, DEPTH, stages=2, grid=(2,), serves=(ag.FragmentRead(M.b), ag.DmaFill()))
    wave, steps = k.wave, k.argument("steps")
    ag.zero(k, *C)

    def width(name: str, each: int) -> ag.Reg:
        """What a row has in all steps."""
        found = k.registers.sgprs(1, name)
        k.s_mul_i32(found, steps, each)
        return found

    def matrix(name: str, dtype: str, down: int, each: int) -> ag.Rows:
        """Rows that go by `each` elements a step."""
        across = width(f"{name}_width", each)
        return ag.Matrix(name, dtype, k.argument(name), down, across, across, each, each << 10, each).rows(0, down)

    a = matrix("a", "i8", SIZE, DEPTH * element_bits("fp4") // 8).halves()
    b = matrix("b", "i8", SIZE // rows, rows * DEPTH * element_bits("fp4") // 8)
    scale_a = matrix("scale_a", "i32", 2, 4 * ag.LANES).halves()
    scale_b = matrix("scale_b", "i32", 4, 2 * ag.LANES)
    order = ag.ROWS_BY_K if rows < GROUP else ag.ALONG_K
    memory, cores = k.streams("memory", "cores")

    def step(t: ag.StepIndex) -> None:
        with k.stage(), memory:
            ag.load(k, B[t + 1], b.k(t + 1), rows=wave)
            ag.load(k, SB[t + 1], scale_b.k(t + 1), rows=wave)
            for number in range(2):
                ag.load(k, SA[t + 1, number], scale_a[number].k(t + 1))
                ag.read(k, A[number], As[t, number])
            for number in range(2):  # the first half is refilled in the step that reads it, the second one before it is read again
                ag.fill(k, As[t + 2 - number, number], a[number].k(t + 2 - number))
        with k.stage(), cores:
            operand = ag.Tile("B", own, DEPTH, M.a, B[t].registers, B[t].index)
            for number in range(2):
                ag.mma_scaled(k, C[number], A[number], operand, ag.as_scales(SA[t, number], order), ag.as_scales(SB[t], order))

    k.pipeline(step, steps, ag.Modulo())
    d = ag.Matrix("d", "f32", k.argument("d"), SIZE, SIZE, SIZE).rows(0, SIZE).halves()
    for number in range(2):
        ag.store_tile(k, d[number], C[number], columns=wave)
    k.s_endpgm()
    return k.finish()


def in_fragments(codes: Array, rows: int) -> Array:
    """[row][k] codes of fp4 as bytes: fragments of so many rows, in which lane l's 16 bytes begin at 16 l."""
    packed = codes[:, ::2] | codes[:, 1::2] << 4
    wide = packed.reshape(SIZE // rows, rows, -1, 16)  # [group][row][chunk][byte]
    return np.ascontiguousarray(wide.transpose(0, 2, 1, 3)).reshape(-1)


def in_lanes(codes: Array, rows: int, dwords: int) -> Array:
    """[row][block] scale bytes as [run of groups][step][lane][dword of a group], where a dword has the bytes of 32 rows and 8 blocks."""
    groups, steps = codes.reshape(SIZE // GROUP, GROUP, -1, 8).transpose(0, 2, 1, 3), codes.shape[1] // 8
    if rows < GROUP:  # byte 2 (K128) + (half of the rows), lane 16 (block of the K128) + row
        lanes = groups.reshape(-1, steps, 2, 16, 2, 4).transpose(0, 1, 5, 3, 4, 2)
    else:  # byte (K64), lane 32 (block of the K64) + row
        lanes = groups.reshape(-1, steps, 32, 4, 2).transpose(0, 1, 4, 2, 3)
    words = np.ascontiguousarray(lanes.reshape(-1, steps, ag.LANES, 4)).view(np.uint32)[..., 0]
    return np.ascontiguousarray(words.reshape(-1, dwords, steps, ag.LANES).transpose(0, 2, 3, 1)).reshape(-1)


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "rows", "most", "busy"), [("16x16x128", 16, 1.58, 0.95), ("32x32x64", 32, 2.2, 0.97)])
def test_an_mxfp4_product_whose_weights_and_scales_pass_lds_by(shape: str, rows: int, most: float, busy: float) -> None:
    rng = np.random.default_rng(rows)
    a, b = (rng.integers(0, 16, (SIZE, STEPS * DEPTH), np.uint8) for _ in range(2))
    scale_a, scale_b = (rng.integers(126, 130, (SIZE, STEPS * DEPTH // 32), np.uint8) for _ in range(2))
    scale_a[5, 70] = scale_b[201, 3] = 0xFF  # NaN
    kernel, trace = product(shape), Trace(1)
    buffers = [a[:, ::2] | a[:, 1::2] << 4, in_fragments(b, rows), in_lanes(scale_a, rows, 4), in_lanes(scale_b, rows, 2),
               np.zeros((SIZE, SIZE), np.float32)]
    done = launch("gfx950", kernel.program, block=(4 * ag.LANES, 1, 1), buffers=buffers, values=[STEPS], vgprs=512,
                  lds=kernel.resources.lds_bytes, options=Options(True, "lockstep", trace=trace))
    assert not done.findings
    left, right = (E2M1[codes] * np.where(scale == 0xFF, np.nan, np.exp2(scale - 127.0)).repeat(32, axis=1)
                   for codes, scale in ((a, scale_a), (b, scale_b)))
    np.testing.assert_array_equal(done.buffers[4], left @ right.T)
    loop = max(profile(kernel.program, list(trace.waves()), timing("MI355X"), "l2").loops, key=lambda one: one.rounds)
    code = kernel.program.instructions[loop.first:loop.last + 1]
    assert loop.steady and loop.matrix_busy >= busy
    assert len(code) <= most * sum(item.name.startswith("v_mfma") for item in code)
