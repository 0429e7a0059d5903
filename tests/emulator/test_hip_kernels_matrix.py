"""Every matrix instruction that clang makes of tests/hip_sources, on exact data, against a reference in plain Python.

Values are small and asymmetric, so that all sums are exact: the result must be right bit for bit, whatever the order of adding.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from asmgen.program.program import Instruction
from asmgen.reader.disassembly import read_kernel
from tests.clang_objects import ARCHS, hip_object, needs_clang
from tests.hip_launch import Array, run_hip
from tests.matrix_reference import Setting, Shape, bits_of, reference, shape_of

HALF = [f"mfma_{kind}_{shape}" for kind in ("f16", "bf16")
        for shape in ("32x32x8", "16x16x16", "32x32x4_2b", "16x16x4_4b", "4x4x4_16b")]
HALF_950 = [f"mfma_{kind}_{shape}" for kind in ("f16", "bf16") for shape in ("32x32x16", "16x16x32")]
MORE = ["mfma_f32_32x32x2", "mfma_f32_16x16x4", "mfma_f32_32x32x1_2b", "mfma_f32_16x16x1_4b", "mfma_f32_4x4x1_16b", "mfma_f64_16x16x4",
        "mfma_f64_4x4x4_4b", "mfma_i8_32x32x16", "mfma_i8_16x16x32", "mfma_i8_32x32x4_2b", "mfma_fp8_fp8_16x16x32", "mfma_bf8_fp8_16x16x32",
        "mfma_fp8_bf8_32x32x16", "mfma_bf8_bf8_32x32x16", "smfmac_f16_16x16x32", "smfmac_bf16_32x32x16", "smfmac_i8_16x16x64",
        "smfmac_fp8_bf8_32x32x32"]
SCALED = ["scaled_16x16_fp8", "scaled_16x16_fp4", "scaled_16x16_mixed", "scaled_32x32_bf8", "scaled_32x32_fp6"]
CASES = [*((arch, "mfma_half", name) for arch in ARCHS for name in HALF), *(("gfx950", "mfma_half", name) for name in HALF_950),
         *((arch, "mfma_more", name) for arch in ARCHS for name in MORE),
         *(("gfx950", "mfma_more", name) for name in ("mfma_i8_16x16x64", "mfma_i8_32x32x32")),
         *(("gfx942", "mfma_more", name) for name in ("mfma_xf32_16x16x8", "mfma_xf32_32x32x4")),
         *(("gfx950", "mfma_scaled", name) for name in SCALED), ("gfx942", "mfma_scaled", "scaled_16x16_fp8"),
         ("gfx942", "mfma_scaled", "scaled_32x32_bf8")]
pytestmark = [needs_clang, pytest.mark.needs_objdump]
LANES = 64


@cache
def matrix_instruction(arch: str, source: str, kernel: str) -> Instruction:
    """The one that the kernel is about."""
    code_object = hip_object(source, arch)
    found = [step for step in read_kernel(code_object, code_object.kernel(kernel)).instructions if "mfma" in step.opcode.classes]
    assert len(found) == 1
    return found[0]


def dtype_of(kind: str, arch: str) -> Any:
    fnuz = arch == "gfx942"
    return {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "xf32": np.float32, "f64": np.float64, "i8": np.int8,
            "i32": np.int32,
            "fp8": ml_dtypes.float8_e4m3fnuz if fnuz else ml_dtypes.float8_e4m3fn,
            "bf8": ml_dtypes.float8_e5m2fnuz if fnuz else ml_dtypes.float8_e5m2}[kind]


def lanes_of_values(kind: str, arch: str, registers: int, seed: int) -> Array:
    """Small random values of a format, [64 lanes, registers] of words: -3 to 4 in steps of 1/2, or all of the smallest formats."""
    chance = np.random.default_rng(seed)
    if kind in ("fp6", "bf6", "fp4"):
        codes = chance.integers(0, {"fp6": 64, "bf6": 64, "fp4": 16}[kind], (LANES, 32 * registers // bits_of(kind)))
        if kind == "bf6":
            codes = codes & 0b110111  # exponents below 16 only, so that sums stay exact
        words = np.zeros((LANES, registers), np.uint32)
        for item in range(codes.shape[1]):
            for bit in range(bits_of(kind)):
                at = item * bits_of(kind) + bit
                words[:, at // 32] |= (codes[:, item].astype(np.uint32) >> np.uint32(bit) & np.uint32(1)) << np.uint32(at % 32)
        return words
    if kind == "i8":
        return chance.integers(-128, 128, (LANES, 4 * registers)).astype(np.int8).view(np.uint32)
    values = chance.integers(-6, 9, (LANES, 32 * registers // bits_of(kind))) / 2
    return np.ascontiguousarray(values.astype(dtype_of(kind, arch))).view(np.uint32)


def words_of(array: Array, lanes_first: int) -> list[list[int]]:
    """[register][lane] of lanes' words in memory."""
    return array.reshape(LANES, lanes_first).T.tolist()


def operand_words(array: Array, instruction: Instruction, place: int) -> list[list[int]]:
    count = instruction.operands[place].count  # type: ignore[union-attr]
    return words_of(array.reshape(LANES, -1)[:, :count].copy(), count)


def addends(shape: Shape, registers: int, seed: int) -> Array:
    values = np.random.default_rng(seed).integers(-1000, 1000, (LANES, registers // (2 if shape.result == "f64" else 1)))
    return np.ascontiguousarray(values.astype({"f32": np.float32, "i32": np.int32, "f64": np.float64}[shape.result]))


@pytest.mark.parametrize("arch,source,kernel", CASES)
def test_matrix_instruction(arch: str, source: str, kernel: str) -> None:
    instruction = matrix_instruction(arch, source, kernel)
    modifiers = instruction.modifiers
    scaled = "scale" in instruction.name
    selected = [tuple(modifiers.get(name) or (0, 0)) for name in ("op_sel", "op_sel_hi")]
    setting = Setting(arch, int(modifiers.get("cbsz", 0)), int(modifiers.get("abid", 0)), int(modifiers.get("blgp", 0)),
                      scale_bytes=(selected[0][0] + 2 * selected[1][0], selected[0][1] + 2 * selected[1][1]) if scaled else (0, 0))
    shape = shape_of(instruction.name, setting.cbsz, setting.blgp)
    held = {"mfma_scaled": 8}.get(source)
    counts = [held or instruction.operands[place].count for place in (1, 2)]  # type: ignore[union-attr]
    a, b = (lanes_of_values(kind, arch, count, seed) for kind, count, seed in ((shape.a, counts[0], 1), (shape.b, counts[1], 2)))
    registers = instruction.operands[0].count  # type: ignore[union-attr]
    c = addends(shape, registers, 3)
    args: list[Any] = [np.zeros_like(c), a, b, c]
    index = scales = None
    if shape.sparse:
        # Pairs of different places in ascending order, in every set of bits that the instruction may choose.
        pairs = np.array([0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110], np.uint32)
        chosen = pairs[np.random.default_rng(4).integers(0, 6, (LANES, 8))]
        index = np.bitwise_or.reduce(chosen << np.arange(0, 32, 4, dtype=np.uint32), axis=1).astype(np.uint32)
        args.append(index)
    if source == "mfma_scaled":
        scales = np.random.default_rng(5).integers(126, 129, (2, LANES, 4)).astype(np.uint8).view(np.uint32)[..., 0]
        args += [scales[0], scales[1]]
    out = run_hip(source, arch, kernel, 1, 64, args)[0]
    pattern, step = (np.uint64, 2) if shape.result == "f64" else (np.uint32, 1)
    before = c.view(pattern)
    expected = reference(instruction.name, operand_words(a, instruction, 1), operand_words(b, instruction, 2),
                         lambda lane, register: int(before[lane, register // step]), setting,
                         (scales[0].tolist(), scales[1].tolist()) if scaled and scales is not None else None,
                         index.tolist() if index is not None else None)
    found = np.zeros_like(before)
    for (lane, register), value in expected.items():
        found[lane, register // step] = value
    assert len(expected) == found.size
    assert out.tolist() == found.view(c.dtype).tolist()
    assert len(np.unique(out)) > 50  # asymmetric: a transposed or rotated layout would show
