"""Every matrix instruction against a reference in plain Python: layouts, formats, scales, broadcasts, AGPRs, partial EXEC."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from asmgen.author.emit.builder import Builder
from asmgen.emulator.semantics import matrix
from asmgen.isa.opcodes.mfma import MFMA
from asmgen.isa.registers import Reg, a, v
from tests.emulator_harness import MODE_DEFAULT, MODE_KEEP, new_machine, run
from tests.matrix_reference import Setting, bits_of, reference, shape_of

WAVES = 2
EXEC_MASK = 0x0F0F_3C3C_5A5A_FF01
CASES = [(name, arch) for name, row in sorted(MFMA.items()) for arch in sorted(row.archs)]
DENSE = [(name, arch) for name, arch in CASES if not MFMA[name].f8f6f4 and not MFMA[name].sparse]
SPARSE = [(name, arch) for name, arch in CASES if MFMA[name].sparse]
F8F6F4 = sorted(name for name, row in MFMA.items() if row.f8f6f4)
Words = Any


WAYS = ("numpy", "compiled")
"""In which products are summed."""


def sum_by(way: str, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(matrix, "_compiled", lambda plan, group: way == "compiled")


@pytest.fixture(params=WAYS)
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways, for tests that do not `check`."""
    chosen: str = request.param
    sum_by(chosen, monkeypatch)
    return chosen


def patterns(rng: np.random.Generator, kind: str, registers: int) -> Words:
    """Registers [registers, WAVES, 64] of moderate values: sums that neither overflow nor drown."""
    words = rng.integers(0, 1 << 32, (registers, WAVES, 64), dtype=np.uint32)
    if kind in ("f16", "bf16"):
        low, width = {"f16": (10, 10), "bf16": (121, 7)}[kind]
        halves = words.view(np.uint16)
        exponents = rng.integers(low, low + 12, halves.shape).astype(np.uint16) << np.uint16(width)
        return (halves & np.uint16(0x8000 | (1 << width) - 1) | exponents).view(np.uint32)
    if kind in ("f32", "xf32"):
        return words & np.uint32(0x807FFFFF) | rng.integers(120, 134, words.shape, dtype=np.uint32) << np.uint32(23)
    if kind == "f64":
        high = words[1::2]
        words[1::2] = high & np.uint32(0x800FFFFF) | rng.integers(1018, 1028, high.shape, dtype=np.uint32) << np.uint32(20)
    if kind == "bf8":  # no infinities and NaNs
        quads = words.view(np.uint8)
        quads[quads & 0x7C == 0x7C] &= 0x3F
    if kind == "fp8":
        quads = words.view(np.uint8)
        quads[quads & 0x7F == 0x7F] &= 0xF3
        quads[quads == 0x80] = 0x81
    return words


@dataclass
class Trial:
    """One instruction with its registers. `files` says where A, B and C/D are; `c_value` an inline constant for C."""

    name: str
    arch: str
    a: Words
    b: Words
    c: Words
    setting: Setting
    files: str = "vvv"
    c_value: float | int | None = None
    scales: Words | None = None
    index: Words | None = None
    mode: int = MODE_DEFAULT
    exec_mask: int = EXEC_MASK
    separate_d: bool = True

    def run(self) -> Words:
        """D's registers [registers, WAVES, 64]; everything else must be as it was."""
        machine = new_machine(self.arch, WAVES)
        before = np.random.default_rng(5).integers(0, 1 << 32, machine.vector.shape, dtype=np.uint32)
        files = {"v": v, "a": a}
        first, second = (files[letter][start:start + len(words) - 1] for letter, start, words in
                         zip(self.files, (8, 24), (self.a, self.b), strict=False))
        kept = files[self.files[2]]
        count = len(self.c)
        addend: Reg | float | int = kept[64:63 + count] if self.c_value is None else self.c_value
        target = kept[128:127 + count] if self.separate_d and self.index is None else kept[64:63 + count]
        for reg, words in ((first, self.a), (second, self.b), (kept[64:63 + count], self.c)):
            before[machine.slot(reg):machine.slot(reg) + reg.count] = words
        for register, words in ((40, self.scales), (44, self.index)):
            if words is not None:
                before[register:register + len(words)] = words
        machine.vector[:] = before
        run(self.arch, lambda k: self.emit(k, target, first, second, addend), machine=machine, mode=self.mode, exec_mask=self.exec_mask)
        slot = machine.slot(target)
        result = machine.vector[slot:slot + count].copy()
        machine.vector[slot:slot + count] = before[slot:slot + count]
        assert (machine.vector == before).all(), "a register that is no destination was written"
        return result

    def emit(self, k: Builder, target: Reg, first: Reg, second: Reg, addend: Reg | float | int) -> None:
        """The instruction with its modifiers."""
        setting, name = self.setting, self.name
        chosen: dict[str, Any] = {"cbsz": setting.cbsz or None, "abid": setting.abid or None, "blgp": setting.blgp or None}
        if any(setting.negate):
            chosen["neg"] = setting.negate
        if self.index is not None:
            k.emit(name, target, first, second, v[44], **chosen)
        elif self.scales is not None:
            low, high = (tuple(byte >> shift & 1 for byte in setting.scale_bytes) for shift in (0, 1))
            k.emit(name, target, first, second, addend, v[40], v[41], op_sel=(*low, 0), op_sel_hi=(*high, 0), **chosen)
        else:
            k.emit(name, target, first, second, addend, **chosen)

    def check(self) -> None:
        """Compare every element of every wave, summed in both ways."""
        results = {}
        for way in WAYS:
            with pytest.MonkeyPatch.context() as patch:
                sum_by(way, patch)
                results[way] = self.run()
        wide = shape_of(self.name, self.setting.cbsz, self.setting.blgp).result == "f64"
        for wave in range(WAVES):
            def addend(lane: int, register: int, addends: list[list[int]] = self.c[:, wave].tolist()) -> int:  # noqa: B008
                if self.c_value is not None:
                    return inline_pattern(self.c_value, self.name)
                return int(addends[register][lane] | (addends[register + 1][lane] << 32 if wide else 0))

            scales = None if self.scales is None else (self.scales[0, wave].tolist(), self.scales[1, wave].tolist())
            index = None if self.index is None else self.index[0, wave].tolist()
            expected = reference(self.name, self.a[:, wave].tolist(), self.b[:, wave].tolist(), addend, self.setting, scales, index)
            for way, result in results.items():
                rows = result[:, wave].tolist()
                for (lane, register), pattern in expected.items():
                    found = rows[register][lane] | (rows[register + 1][lane] << 32 if wide else 0)
                    assert found == pattern, f"{self.name} {way} wave {wave} lane {lane} register {register}: {found:#x} for {pattern:#x}"
            assert len(expected) == len(self.c) * 64 // (2 if wide else 1)


def inline_pattern(value: float | int, name: str) -> int:
    """A constant C: integers are themselves, floats f32, or f64 in f64 instructions."""
    if isinstance(value, int):
        return value & ((1 << 64) - 1 if "_f64_" in name else 0xFFFFFFFF)
    return int(np.array(value, np.float64).view(np.uint64) if "_f64_" in name else np.array(value, np.float32).view(np.uint32))


def trial(name: str, arch: str, seed: int = 0, **changes: Any) -> Trial:
    """Random operands for an instruction; keywords as Setting and Trial have them."""
    settings = {key: changes.pop(key) for key in list(changes) if key in Setting.__dataclass_fields__}
    setting = Setting(arch=arch, **settings)
    shape, row = shape_of(name, setting.cbsz, setting.blgp), MFMA[name]
    rng = np.random.default_rng([seed, *name.encode()])
    a_regs, b_regs, cd_regs = row.registers(setting.cbsz, setting.blgp)
    mode = changes.get("mode", MODE_DEFAULT)
    setting = replace(setting, flush_in=not mode & 0x10, flush_out=not mode & 0x20)
    kind = {"f32": "f32", "i32": "i8", "f64": "f64"}[shape.result]
    made = Trial(name, arch, patterns(rng, shape.a, a_regs), patterns(rng, shape.b, b_regs), patterns(rng, kind, cd_regs), setting)
    if row.scaled:
        made.scales = rng.integers(110, 140, (2, WAVES, 64, 4)).astype(np.uint8).view(np.uint32)[..., 0]
    if row.sparse:
        made.index = sparse_index(rng)
    for key, value in changes.items():
        setattr(made, key, value)
    return made


def sparse_index(rng: np.random.Generator) -> Words:
    """Pairs of 2-bit indices, the lower one first, in every set."""
    pairs = np.array([low | high << 2 for low in range(4) for high in range(low + 1, 4)], np.uint32)
    return sum(pairs[rng.integers(0, len(pairs), (1, WAVES, 64))] << np.uint32(4 * n) for n in range(8))


@pytest.mark.parametrize(("name", "arch"), DENSE)
def test_dense(name: str, arch: str) -> None:
    trial(name, arch, 1, files=random.Random(name).choice(["vvv", "avv", "vaa", "aaa", "vva", "aav"])).check()


@pytest.mark.parametrize(("name", "arch"), DENSE)
def test_inline_addend_and_other_values(name: str, arch: str) -> None:
    trial(name, arch, 2, c_value=random.Random(name).choice([0, 1.0, -4.0, 5]), files="vav").check()


@pytest.mark.parametrize(("name", "arch"), SPARSE)
def test_sparse(name: str, arch: str) -> None:
    sets = 16 // (MFMA[name].a_regs * (4 if bits_of(shape_of(name).a) == 8 else 2))
    for abid in range(sets):
        trial(name, arch, 3 + abid, abid=abid, files=["vvv", "aav", "vaa", "ava"][abid]).check()


def test_sparse_with_cbsz_uses_the_first_set() -> None:
    trial("v_smfmac_f32_16x16x32_f16", "gfx942", cbsz=1, abid=2).check()


@pytest.mark.parametrize("blgp", range(5))
@pytest.mark.parametrize("cbsz", range(5))
@pytest.mark.parametrize("name", F8F6F4)
def test_every_pair_of_formats(name: str, cbsz: int, blgp: int) -> None:
    chosen = random.Random(f"{name}{cbsz}{blgp}")
    scaled = {"scale_bytes": (chosen.randrange(4), chosen.randrange(4))} if "scale" in name else {}
    trial(name, "gfx950", 7, cbsz=cbsz, blgp=blgp, files=chosen.choice(["vvv", "avv", "vaa", "ava"]), **scaled).check()


@pytest.mark.parametrize("bytes_", [(x, y) for x in range(4) for y in range(4)])
def test_scale_bytes(bytes_: tuple[int, int]) -> None:
    trial("v_mfma_scale_f32_16x16x128_f8f6f4", "gfx950", 8, cbsz=4, blgp=0, scale_bytes=bytes_).check()


def test_scale_255_makes_its_block_of_one_row_nan(path: str) -> None:
    made = trial("v_mfma_scale_f32_16x16x128_f8f6f4", "gfx950", 9, cbsz=4, blgp=4)
    made.scales[0, 0, 16 + 5] = 0xFF  # row 5, k 32 to 63
    made.a[:] = 0  # 0 times NaN is NaN as well
    made.check()
    result = made.run()[:, 0]
    assert (result[1, 16:32] == 0x7FC00000).all(), "row 5 is register 1 of lanes 16 to 31"
    assert (result == 0x7FC00000).sum() == 16


BROADCASTS = [("v_mfma_f32_32x32x4_2b_f16", 1), ("v_mfma_f32_16x16x4_4b_bf16", 2), ("v_mfma_f32_4x4x4_16b_f16", 4),
              ("v_mfma_i32_4x4x4_16b_i8", 3),
              ("v_mfma_f32_4x4x1_16b_f32", 2), ("v_mfma_f32_16x16x1_4b_f32", 1)]


@pytest.mark.parametrize(("name", "cbsz"), BROADCASTS)
def test_broadcast_of_a_blocks(name: str, cbsz: int) -> None:
    for abid in (0, 1, (1 << cbsz) - 1):
        trial(name, "gfx942", 11, cbsz=cbsz, abid=abid, files="avv").check()


@pytest.mark.parametrize("blgp", range(8))
def test_permutation_of_b_lanes(blgp: int) -> None:
    for name in ("v_mfma_f32_32x32x1_2b_f32", "v_mfma_f32_16x16x16_f16", "v_mfma_f32_4x4x4_16b_bf16", "v_mfma_i32_32x32x16_i8"):
        trial(name, "gfx942", 12, blgp=blgp, files="vav").check()


def test_broadcast_and_permutation_together() -> None:
    trial("v_mfma_f32_16x16x4_4b_f16", "gfx950", 13, cbsz=1, abid=1, blgp=3).check()


MOVING = sorted({name: arch for name, arch in DENSE if MFMA[name].kind != "dgemm" and not MFMA[name].f8f6f4}.items())


@pytest.mark.parametrize(("name", "arch"), MOVING)
def test_every_name_permutes_and_broadcasts(name: str, arch: str) -> None:
    """blgp of every instruction, and cbsz with abid of every one with blocks: A's blocks are all the last one then."""
    blocks = MFMA[name].blocks
    cbsz = blocks.bit_length() - 1
    for blgp in random.Random(name).sample([2, 3, 5, 6, 7], 2):
        trial(name, arch, 26, blgp=blgp, files="vvv").check()
    if blocks > 1:
        trial(name, arch, 27, cbsz=cbsz, abid=(1 << cbsz) - 1, files="avv").check()


@pytest.mark.parametrize("name", ["v_mfma_f64_16x16x4_f64", "v_mfma_f64_4x4x4_4b_f64"])
@pytest.mark.parametrize("negate", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)])
def test_f64_negation(name: str, negate: tuple[int, int, int]) -> None:
    trial(name, "gfx950", 14, negate=negate).check()


def test_f64_sums_are_fused() -> None:
    # Products that cancel: only a fused multiply-add keeps what is left of them.
    made = trial("v_mfma_f64_16x16x4_f64", "gfx942", 15)
    exact = np.float64(1 + 2.0**-30)
    made.a[:] = np.array([exact]).view(np.uint32)[:, None, None]
    made.b[:] = np.array([exact]).view(np.uint32)[:, None, None]
    minus = np.array([-exact * exact]).view(np.uint32)
    made.c[0::2], made.c[1::2] = minus[0], minus[1]
    made.check()


def put(words: Words, kind: str, values: list[int]) -> None:
    """Special codes into every 7th element."""
    codes = words.reshape(-1).view(f"u{bits_of(kind) // 8}")
    codes[::7] = np.resize(np.array(values, codes.dtype), len(codes[::7]))


SPECIALS = {"f16": [0x7C00, 0xFC00, 0x7E01, 0x0001, 0x83FF, 0x8000], "bf16": [0x7F80, 0xFF80, 0x7FC1, 0x0001, 0x807F, 0x8000],
            "fp8": [0x7F, 0xFF, 0x01, 0x80, 0x78, 0x00], "bf8": [0x7C, 0xFC, 0x7E, 0x01, 0x80, 0x83],
            "f32": [0x7F800000, 0xFF800000, 0x7FC12345, 1, 0x807FFFFF]}
SPECIAL_CASES = [(name, arch) for name, arch in CASES if shape_of(name).a in SPECIALS and shape_of(name).m == 16]


@pytest.mark.parametrize("values", ["finite", "all"])
@pytest.mark.parametrize(("name", "arch"), SPECIAL_CASES)
def test_special_values(name: str, arch: str, values: str) -> None:
    """Infinities, NaNs, denormals (kept by all formats but f32, whose MODE decides) and zeros of both signs."""
    made = trial(name, arch, 16, mode=MODE_KEEP if values == "all" else MODE_DEFAULT)
    for words, kind in ((made.a, shape_of(name).a), (made.b, shape_of(name).b)):
        put(words, kind, SPECIALS[kind][:] if values == "all" else SPECIALS[kind][3:])
    made.check()


@pytest.mark.parametrize("mode", [0x0, 0x10, 0x20, 0x30])
@pytest.mark.parametrize("name", ["v_mfma_f32_16x16x4_f32", "v_mfma_f32_32x32x4_xf32", "v_mfma_f32_16x16x16_f16"])
def test_f32_denormals_by_mode(name: str, mode: int) -> None:
    made = trial(name, "gfx942", 17, mode=MODE_DEFAULT & ~0x30 | mode)
    if shape_of(name).a == "f16":  # f16 keeps its denormals, and their tiny products, whatever MODE says
        made.a = made.a & np.uint32(0x83FF83FF)
        made.b = made.b & np.uint32(0x83FF83FF)
        made.c[:] = np.resize([0, 0x80000001, 0x00400000, 0x80000000], made.c.shape)
    else:
        made.a = made.a & np.uint32(0x807FFFFF)  # denormals
        made.c = made.c & np.uint32(0x807FFFFF)
        made.b[:, :, ::2] &= np.uint32(0x807FFFFF)
    made.check()


@pytest.mark.parametrize("keeps_in", [False, True])
@pytest.mark.parametrize("keeps_out", [False, True])
def test_f64_denormals_by_mode(keeps_in: bool, keeps_out: bool) -> None:
    """MODE 6 keeps denormal sources, 7 denormal results: four products of a row, each 2^-1060."""
    for left, right, denormal_sources in ((2.0**-1060, 1.0, True), (2.0**-1000, 2.0**-60, False)):
        mode = MODE_DEFAULT & ~0xC0 | keeps_in << 6 | keeps_out << 7
        made = trial("v_mfma_f64_4x4x4_4b_f64", "gfx942", 28, mode=mode, c_value=0)
        for words, value in ((made.a, left), (made.b, right)):
            words[0], words[1] = np.array([value]).view(np.uint32)
        found = np.ascontiguousarray(np.moveaxis(made.run(), 0, -1)).view(np.float64)
        assert (found == (2.0**-1058 if keeps_out and (keeps_in or not denormal_sources) else 0.0)).all()


def test_f16_denormals_reach_the_sum(path: str) -> None:
    made = trial("v_mfma_f32_16x16x16_f16", "gfx950", 18, c_value=0)
    made.a[:], made.b[:] = 0x00010001, 0x3C003C00
    result = made.run()
    assert (result.view(np.float32) == 16 * 2.0**-24).all()


def test_fnuz_and_ocp_differ_by_two(path: str) -> None:
    """The same bytes: gfx942's bias is 8, gfx950's 7, for A and for B."""
    values = {}
    for arch in ("gfx942", "gfx950"):
        made = trial("v_mfma_f32_16x16x32_fp8_fp8", arch, 19, c_value=0)
        made.a = made.a & np.uint32(0x3F3F3F3F)
        made.b = made.b & np.uint32(0x3F3F3F3F)
        values[arch] = made.run().view(np.float32)
    assert (values["gfx950"] == 4 * values["gfx942"]).all() and values["gfx942"].any()


def test_k_order_of_fp8_against_fp4(path: str) -> None:
    """One k at a time: A's byte of k and B's nibble of k meet although they lie in different lanes."""
    name = "v_mfma_f32_16x16x128_f8f6f4"
    for k in (0, 15, 16, 47, 63, 64, 79, 100, 127):
        made = trial(name, "gfx950", 20, blgp=4, c_value=0)
        made.a[:], made.b[:] = 0, 0
        half, rest = divmod(k, 64)
        lane, byte = 3 + 16 * (rest // 16), 16 * half + rest % 16  # row 3
        made.a[byte // 4, 0, lane] = 0x38 << 8 * (byte % 4)  # 1.0
        made.b[k % 32 // 8, 0, 9 + 16 * (k // 32)] = 0x4 << 4 * (k % 8)  # 2.0 in column 9
        result = made.run()[:, 0].view(np.float32)
        assert result[3, 9] == 2.0 and np.count_nonzero(result) == 1, k


def test_32x32_result_layout(path: str) -> None:
    """A row of ones times a column with its number: each element of D says where it is."""
    made = trial("v_mfma_f32_32x32x8_f16", "gfx942", 21, c_value=0)
    made.a[:], made.b[:] = 0, 0
    made.a[0, 0, :32] = np.arange(32, dtype=np.float16).view(np.uint16)  # k 0: row number
    made.b[0, 0, :32] = 0x3C00
    rows = made.run()[:, 0].view(np.float32)
    for register in range(16):
        for lane in range(64):
            assert rows[register, lane] == 8 * (register // 4) + 4 * (lane // 32) + register % 4


@pytest.mark.parametrize("mask", [0, 1, 0xFFFFFFFF00000000])
def test_exec_does_not_matter(mask: int) -> None:
    trial("v_mfma_f32_16x16x16_bf16", "gfx942", 22, exec_mask=mask).check()


def test_wrapping_integer_sum(path: str) -> None:
    made = trial("v_mfma_i32_16x16x32_i8", "gfx950", 23)
    made.a[:], made.b[:], made.c[:] = 0x80808080, 0x80808080, 0x7FFFFFFF
    result = made.run()
    assert (result == (0x7FFFFFFF + 32 * 128 * 128) & 0xFFFFFFFF).all()


def test_destination_over_addend_and_sources(path: str) -> None:
    """D where C is, and D where A is: the old values are read first."""
    trial("v_mfma_f32_16x16x32_fp8_bf8", "gfx950", 24, separate_d=False).check()
    machine = new_machine("gfx950", WAVES)
    rng = np.random.default_rng(3)
    a_words, b_words = patterns(rng, "bf16", 4), patterns(rng, "bf16", 4)
    machine.vector[8:12], machine.vector[24:28] = a_words, b_words
    run("gfx950", lambda k: k.v_mfma_f32_16x16x32_bf16(v[8:11], v[8:11], v[24:27], 0), machine=machine)
    apart = new_machine("gfx950", WAVES)
    apart.vector[8:12], apart.vector[24:28] = a_words, b_words
    run("gfx950", lambda k: k.v_mfma_f32_16x16x32_bf16(v[64:67], v[8:11], v[24:27], 0), machine=apart)
    assert (machine.vector[8:12] == apart.vector[64:68]).all()


@pytest.mark.parametrize("name", ["v_mfma_f32_16x16x32_bf16", "v_mfma_f32_16x16x32_fp8_fp8"])
@pytest.mark.parametrize("shift", [-2, 2, 4])
def test_destination_beside_the_addend(name: str, shift: int, path: str) -> None:
    """D some registers above or below C: no row of C is lost before it is added."""
    row, rng = MFMA[name], np.random.default_rng(5)
    machine, apart = new_machine("gfx950", WAVES), new_machine("gfx950", WAVES)
    machine.vector[8:8 + row.a_regs] = patterns(rng, row.a_type, row.a_regs)
    machine.vector[24:24 + row.b_regs] = patterns(rng, row.b_type, row.b_regs)
    machine.vector[40:44] = patterns(rng, "f32", 4)
    apart.vector[:] = machine.vector
    operands = v[8:7 + row.a_regs], v[24:23 + row.b_regs], v[40:43]
    run("gfx950", lambda k: k.emit(name, v[40 + shift:43 + shift], *operands), machine=machine)
    run("gfx950", lambda k: k.emit(name, v[64:67], *operands), machine=apart)
    assert (machine.vector[40 + shift:44 + shift] == apart.vector[64:68]).all()


def test_decoded_operands_follow_their_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cached operand is decoded again when a register, one lane of it, or the set of waves changes."""
    monkeypatch.setattr(matrix, "_compiled", lambda plan, group: True)
    rng = np.random.default_rng(6)
    machine = new_machine("gfx950", WAVES)
    machine.vector[8:16], machine.vector[24:32] = patterns(rng, "fp8", 8), patterns(rng, "fp8", 8)

    def once() -> Words:
        fresh = new_machine("gfx950", WAVES)
        fresh.vector[:] = machine.vector
        emit: Callable[[Builder], Any] = lambda k: k.v_mfma_f32_16x16x128_f8f6f4(v[64:67], v[8:15], v[24:31], 0)  # noqa: E731
        run("gfx950", emit, machine=machine)
        run("gfx950", emit, machine=fresh)
        assert (machine.vector == fresh.vector).all()
        return machine.vector[64:68].copy()

    first = once()
    machine.vector[15, 1, 63] ^= 0x10
    second = once()
    assert (first != second).any()
    machine.vector[24, 0, 5] ^= 0x1000
    assert (once() != second).any()


def test_results_do_not_depend_on_which_waves_run_together(path: str) -> None:
    name = "v_mfma_f32_16x16x16_bf16"
    made = trial(name, "gfx950", 25)
    together = made.run()
    alone = trial(name, "gfx950", 25)
    for wave in range(WAVES):
        for words in (alone.a, alone.b, alone.c):
            words[:, 1 - wave] = 0
        assert (alone.run()[:, wave] == together[:, wave]).all()
        alone = trial(name, "gfx950", 25)
