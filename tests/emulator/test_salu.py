"""Scalar instructions against Python integers: every result and SCC, 32 and 64 bits, constants and literals, EXEC and MODE."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from asmgen.author.emit.builder import Builder
from asmgen.isa.arch import ARCHITECTURES
from asmgen.isa.operands import HwReg, Special
from asmgen.isa.registers import Reg, exec_, m0, s, v, vcc
from asmgen.isa.table import names, opcode
from tests.emulator_harness import MODE_DEFAULT, Result, new_machine, run

ONES32, ONES64 = (1 << 32) - 1, (1 << 64) - 1
WAVES = 40
EDGES32 = [0, 1, 2, 0x7FFFFFFF, 0x80000000, 0x80000001, ONES32, ONES32 - 1, 0x55555555, 0xCCCCCCCC, 0x10000, 0xFFFF, 31, 32, 63]
EDGES64 = [0, 1, 1 << 31, 1 << 32, 1 << 63, ONES64, ONES64 - 1, (1 << 63) - 1, 0x0123456789ABCDEF, 0xF0F0F0F000000000, 0x8000000080000000]
Reference = Callable[..., tuple[int, int | None]]  # operands to (result, SCC or None where it is kept)


def signed(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def samples(bits: int, count: int, seed: int) -> list[int]:
    """Edges first, then random numbers of random length."""
    chance = random.Random(seed)
    edges = list(EDGES64 if bits == 64 else EDGES32)
    chance.shuffle(edges)
    return (edges + [chance.getrandbits(chance.randint(1, bits)) for _ in range(count)])[:count]


def nonzero(function: Callable[..., int], bits: int = 32) -> Reference:
    def both(*operands: int) -> tuple[int, int | None]:
        value = function(*operands) & ((1 << bits) - 1)
        return value, int(value != 0)

    return both


def kept(function: Callable[..., int]) -> Reference:
    return lambda *operands: (function(*operands), None)


def field(value: int, spec: int, bits: int, sign: bool) -> int:
    """The bit field by shifting a Python integer about."""
    offset, width = spec & (bits - 1), spec >> 16 & 127
    number = signed(value, bits) if sign else value
    if width == 0:
        return 0
    part = number >> offset & ((1 << width) - 1)
    return signed(part, width) if sign and width < bits else part


def overflow(total: int) -> int:
    return int(not -(1 << 31) <= total < 1 << 31)


def string(value: int, bits: int) -> str:
    """Bits, highest first."""
    return format(value, f"0{bits}b")


def run_of(text: str, stop: str) -> int:
    """How many characters stand before the first `stop`, -1 where there is none."""
    return text.find(stop)


def sign_run(value: int, bits: int) -> int:
    text = string(value, bits)
    return text.find("1" if text[0] == "0" else "0")


def quads(value: int, bits: int) -> list[int]:
    return [value >> 4 * quad & 15 for quad in range(bits // 4)]


def add_shifted(shift: int) -> Reference:
    def reference(a: int, b: int) -> tuple[int, int | None]:
        total = a * 2 ** shift + b
        return total, int(total > ONES32)

    return reference


LOGIC: dict[str, Callable[[int, int], int]] = {
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "andn2": lambda a, b: a & ~b,
    "orn2": lambda a, b: a | ~b,
    "nand": lambda a, b: ~(a & b), "nor": lambda a, b: ~(a | b), "xnor": lambda a, b: ~(a ^ b),
}

# mnemonic: (bits of the result, bits of each source, reference)
BINARY: dict[str, tuple[int, int, int, Reference]] = {
    "s_add_u32": (32, 32, 32, lambda a, b: (a + b, int(a + b > ONES32))),
    "s_sub_u32": (32, 32, 32, lambda a, b: (a - b, int(b > a))),
    "s_add_i32": (32, 32, 32, lambda a, b: (a + b, overflow(signed(a) + signed(b)))),
    "s_sub_i32": (32, 32, 32, lambda a, b: (a - b, overflow(signed(a) - signed(b)))),
    "s_min_u32": (32, 32, 32, lambda a, b: (min(a, b), int(a < b))),
    "s_max_u32": (32, 32, 32, lambda a, b: (max(a, b), int(a >= b))),
    "s_min_i32": (32, 32, 32, lambda a, b: (min(signed(a), signed(b)), int(signed(a) < signed(b)))),
    "s_max_i32": (32, 32, 32, lambda a, b: (max(signed(a), signed(b)), int(signed(a) >= signed(b)))),
    **{f"s_{name}_b32": (32, 32, 32, nonzero(function)) for name, function in LOGIC.items()},
    **{f"s_{name}_b64": (64, 64, 64, nonzero(function, 64)) for name, function in LOGIC.items()},
    "s_lshl_b32": (32, 32, 32, nonzero(lambda a, b: a << b % 32)),
    "s_lshr_b32": (32, 32, 32, nonzero(lambda a, b: a >> b % 32)),
    "s_ashr_i32": (32, 32, 32, nonzero(lambda a, b: signed(a) >> b % 32)),
    "s_lshl_b64": (64, 64, 32, nonzero(lambda a, b: a << b % 64, 64)),
    "s_lshr_b64": (64, 64, 32, nonzero(lambda a, b: a >> b % 64, 64)),
    "s_ashr_i64": (64, 64, 32, nonzero(lambda a, b: signed(a, 64) >> b % 64, 64)),
    "s_bfm_b32": (32, 32, 32, kept(lambda a, b: ((1 << a % 32) - 1) << b % 32)),
    "s_bfm_b64": (64, 32, 32, kept(lambda a, b: ((1 << a % 64) - 1) << b % 64)),
    "s_mul_i32": (32, 32, 32, kept(lambda a, b: a * b)),
    "s_mul_hi_u32": (32, 32, 32, kept(lambda a, b: a * b >> 32)),
    "s_mul_hi_i32": (32, 32, 32, kept(lambda a, b: signed(a) * signed(b) >> 32)),
    "s_bfe_u32": (32, 32, 32, nonzero(lambda a, b: field(a, b, 32, False))),
    "s_bfe_i32": (32, 32, 32, nonzero(lambda a, b: field(a, b, 32, True))),
    "s_bfe_u64": (64, 64, 32, nonzero(lambda a, b: field(a, b, 64, False), 64)),
    "s_bfe_i64": (64, 64, 32, nonzero(lambda a, b: field(a, b, 64, True), 64)),
    "s_absdiff_i32": (32, 32, 32, nonzero(lambda a, b: abs(signed(signed(a) - signed(b))))),
    **{f"s_lshl{n}_add_u32": (32, 32, 32, add_shifted(n)) for n in (1, 2, 3, 4)},
    "s_pack_ll_b32_b16": (32, 32, 32, kept(lambda a, b: (b & 0xFFFF) << 16 | a & 0xFFFF)),
    "s_pack_lh_b32_b16": (32, 32, 32, kept(lambda a, b: b >> 16 << 16 | a & 0xFFFF)),
    "s_pack_hh_b32_b16": (32, 32, 32, kept(lambda a, b: b >> 16 << 16 | a >> 16)),
}

UNARY: dict[str, tuple[int, int, Reference]] = {
    "s_mov_b32": (32, 32, kept(lambda a: a)),
    "s_mov_b64": (64, 64, kept(lambda a: a)),
    "s_not_b32": (32, 32, nonzero(lambda a: ~a)),
    "s_not_b64": (64, 64, nonzero(lambda a: ~a, 64)),
    "s_abs_i32": (32, 32, nonzero(lambda a: abs(signed(a)))),
    "s_sext_i32_i8": (32, 32, kept(lambda a: signed(a, 8))),
    "s_sext_i32_i16": (32, 32, kept(lambda a: signed(a, 16))),
    "s_bitreplicate_b64_b32": (64, 32, kept(lambda a: int("".join(bit * 2 for bit in string(a, 32)), 2))),
    "s_flbit_i32": (32, 32, kept(lambda a: sign_run(a, 32))),
    "s_flbit_i32_i64": (32, 64, kept(lambda a: sign_run(a, 64))),
}
for _bits in (32, 64):
    UNARY |= {
        f"s_wqm_b{_bits}": (_bits, _bits, nonzero(
            lambda a, bits=_bits: sum((15 if quad else 0) << 4 * at for at, quad in enumerate(quads(a, bits))), _bits)),
        f"s_quadmask_b{_bits}": (_bits, _bits, nonzero(
            lambda a, bits=_bits: sum((quad != 0) << at for at, quad in enumerate(quads(a, bits))), _bits)),
        f"s_brev_b{_bits}": (_bits, _bits, kept(lambda a, bits=_bits: int(string(a, bits)[::-1], 2))),
        f"s_bcnt0_i32_b{_bits}": (32, _bits, nonzero(lambda a, bits=_bits: string(a, bits).count("0"))),
        f"s_bcnt1_i32_b{_bits}": (32, _bits, nonzero(lambda a, bits=_bits: string(a, bits).count("1"))),
        f"s_ff0_i32_b{_bits}": (32, _bits, kept(lambda a, bits=_bits: run_of(string(a, bits)[::-1], "0"))),
        f"s_ff1_i32_b{_bits}": (32, _bits, kept(lambda a, bits=_bits: run_of(string(a, bits)[::-1], "1"))),
        f"s_flbit_i32_b{_bits}": (32, _bits, kept(lambda a, bits=_bits: run_of(string(a, bits), "1"))),
    }

RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b, "lg": lambda a, b: a != b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
}


def place(index: int, bits: int) -> Reg:
    return s[index:index + 1] if bits == 64 else s[index]


def scalars(values: list[int], bits: int, index: int) -> dict[int, list[int]]:
    """Registers from `index` on, one value a wave."""
    low = {index: [value & ONES32 for value in values]}
    return low | {index + 1: [value >> 32 for value in values]} if bits == 64 else low


def result_of(result: Result, bits: int, wave: int, index: int = 8) -> int:
    return result.s64(index, wave) if bits == 64 else result.s(index, wave)


def check(result: Result, bits: int, wave: int, expected: tuple[int, int | None], before: bool, what: str) -> None:
    value, scc = expected
    assert result_of(result, bits, wave) == value & ((1 << bits) - 1), what
    assert bool(result.machine.scc[wave]) == (before if scc is None else bool(scc)), what


@pytest.mark.parametrize("name", sorted(BINARY))
def test_two_sources(name: str) -> None:
    bits, first, second, reference = BINARY[name]
    left, right = samples(first, WAVES, 1), samples(second, WAVES, 2)
    if "bfe" in name:  # the field that is asked for must exist in the sample, its widths beyond the register too
        chance = random.Random(3)
        right = [chance.randrange(64) | chance.choice([0, 1, 5, 31, 32, 33, 63, 64, 100, 127]) << 16 | chance.getrandbits(8) << 8
                 for _ in range(WAVES)]
    right[0], right[1] = left[0] & ((1 << second) - 1), 0  # equal sources: minimum and maximum differ in SCC
    for before in (False, True):
        result = run("gfx950", lambda k: k.emit(name, place(8, bits), place(0, first), place(4, second)), waves=WAVES, scc=before,
                     sgprs=scalars(left, first, 0) | scalars(right, second, 4))
        for wave in range(WAVES):
            check(result, bits, wave, reference(left[wave], right[wave]), before, f"{name} {left[wave]:#x} {right[wave]:#x}")


@pytest.mark.parametrize("name", sorted(UNARY))
def test_one_source(name: str) -> None:
    bits, source, reference = UNARY[name]
    values = samples(source, WAVES, 5)
    for before in (False, True):
        result = run("gfx942", lambda k: k.emit(name, place(8, bits), place(0, source)), waves=WAVES, scc=before,
                     sgprs=scalars(values, source, 0))
        for wave in range(WAVES):
            check(result, bits, wave, reference(values[wave]), before, f"{name} {values[wave]:#x}")


@pytest.mark.parametrize("carry", [False, True])
def test_carry_and_borrow(carry: bool) -> None:
    left, right = samples(32, WAVES, 7), samples(32, WAVES, 8)
    left[0], right[0] = 5, 5  # a borrow out of nothing but the one that came in
    left[1], right[1] = 7, ONES32
    given = scalars(left, 32, 0) | scalars(right, 32, 4)
    total = run("gfx950", lambda k: k.s_addc_u32(s[8], s[0], s[4]), waves=WAVES, scc=carry, sgprs=given)
    difference = run("gfx950", lambda k: k.s_subb_u32(s[8], s[0], s[4]), waves=WAVES, scc=carry, sgprs=given)
    for wave in range(WAVES):
        a, b = left[wave], right[wave]
        check(total, 32, wave, (a + b + carry, int(a + b + carry > ONES32)), carry, "s_addc_u32")
        check(difference, 32, wave, (a - b - carry, int(b + carry > a)), carry, "s_subb_u32")


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("scc", [False, True])
def test_select_and_conditional_move(bits: int, scc: bool) -> None:
    left, right, old = samples(bits, WAVES, 1), samples(bits, WAVES, 2), samples(bits, WAVES, 3)
    given = scalars(left, bits, 0) | scalars(right, bits, 4) | scalars(old, bits, 8)
    chosen = run("gfx950", lambda k: k.emit(f"s_cselect_b{bits}", place(8, bits), place(0, bits), place(4, bits)), waves=WAVES, scc=scc,
                 sgprs=given)
    moved = run("gfx950", lambda k: k.emit(f"s_cmov_b{bits}", place(8, bits), place(0, bits)), waves=WAVES, scc=scc, sgprs=given)
    for wave in range(WAVES):
        check(chosen, bits, wave, (left[wave] if scc else right[wave], None), scc, "cselect")
        check(moved, bits, wave, (left[wave] if scc else old[wave], None), scc, "cmov")


def test_select_looks_at_each_wave() -> None:
    def emit(k: Builder) -> None:
        k.s_cmp_gt_u32(s[0], 2)
        k.s_cselect_b32(s[8], 11, 22)
        k.s_cselect_b64(s[10:11], -1, s[2:3])

    result = run("gfx950", emit, waves=4, sgprs={0: [1, 2, 3, 4], 2: [5, 6, 7, 8], 3: [0, 1, 2, 3]})
    assert [result.s(8, wave) for wave in range(4)] == [22, 22, 11, 11]
    assert [result.s64(10, wave) for wave in range(4)] == [5, 6 | 1 << 32, ONES64, ONES64]


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("value", [0, 1])
def test_bit_set_and_bit_compare(bits: int, value: int) -> None:
    old, at = samples(bits, WAVES, 4), samples(32, WAVES, 6)
    given = scalars(old, bits, 8) | scalars(at, 32, 0)
    changed = run("gfx950", lambda k: k.emit(f"s_bitset{value}_b{bits}", place(8, bits), s[0]), waves=WAVES, sgprs=given)
    compared = run("gfx950", lambda k: k.emit(f"s_bitcmp{value}_b{bits}", place(8, bits), s[0]), waves=WAVES, sgprs=given)
    for wave in range(WAVES):
        bit = 1 << at[wave] % bits
        check(changed, bits, wave, (old[wave] | bit if value else old[wave] & ~bit, None), False, "bitset")
        assert bool(compared.machine.scc[wave]) == (bool(old[wave] & bit) == bool(value))


@pytest.mark.parametrize("name", [f"s_cmp_{relation}_{kind}" for relation in RELATIONS for kind in ("i32", "u32")]
                         + ["s_cmp_eq_u64", "s_cmp_lg_u64"])
def test_compare(name: str) -> None:
    bits = 64 if name.endswith("64") else 32
    left, right = samples(bits, WAVES, 9), samples(bits, WAVES, 10)
    right[3:9] = left[3:9]
    if bits == 64:
        right[9] = left[9] ^ 1 << 40  # the halves count both
    result = run("gfx950", lambda k: k.emit(name, place(0, bits), place(4, bits)), waves=WAVES, scc=True,
                 sgprs=scalars(left, bits, 0) | scalars(right, bits, 4))
    for wave in range(WAVES):
        a, b = (signed(x) if name.endswith("i32") else x for x in (left[wave], right[wave]))
        assert bool(result.machine.scc[wave]) == RELATIONS[name.split("_")[2]](a, b), (name, a, b)


@pytest.mark.parametrize("kind", ["i32", "u32"])
@pytest.mark.parametrize("relation", sorted(RELATIONS))
def test_compare_with_a_short_constant(relation: str, kind: str) -> None:
    left = [0, 1, 0x7FFF, 0x8000, 0xFFFF, 0xFFFF8000, 0xFFFFFFFF, 0xFFFFFFFE, 0x80000000, 0x7FFFFFFF]
    for constant in ([-2, -0x8000, 0x7FFF] if kind == "i32" else [0, 0x7FFF, 0x8000, 0xFFFF]):
        result = run("gfx950", lambda k, c=constant: k.emit(f"s_cmpk_{relation}_{kind}", s[0], c), waves=len(left), sgprs={0: left})
        for wave, value in enumerate(left):
            given = signed(value) if kind == "i32" else value
            assert bool(result.machine.scc[wave]) == RELATIONS[relation](given, constant), (relation, kind, value, constant)


def test_short_constants_are_sign_extended() -> None:
    def emit(k: Builder) -> None:
        k.s_movk_i32(s[0], -5)
        k.s_movk_i32(s[1], 0x8000)
        k.s_mulk_i32(s[2], -3)
        k.s_cmovk_i32(s[3], -7)
        k.s_addk_i32(s[4], -1)

    result = run("gfx950", emit, sgprs={2: 0x40000001, 3: 9, 4: 0x80000000})
    assert [result.s(n) for n in range(5)] == [ONES32 - 4, 0xFFFF8000, -3 * 0x40000001 & ONES32, 9, 0x7FFFFFFF]
    assert result.scc  # the sum left the range of signed numbers
    moved = run("gfx950", lambda k: k.s_cmovk_i32(s[3], -7), scc=True, sgprs={3: 9})
    assert moved.s(3) == ONES32 - 6 and moved.scc
    assert not run("gfx950", lambda k: k.s_addk_i32(s[4], 1), scc=True, sgprs={4: ONES32}).scc


def test_constants_by_operand_type() -> None:
    def emit(k: Builder) -> None:
        k.s_mov_b64(s[0:1], -3)  # inline: sign-extended
        k.s_mov_b64(s[2:3], 0xFFFFFF00)  # a literal: zero-extended in a b64
        k.s_ashr_i64(s[4:5], 0xFFFFFF00, 4)  # sign-extended in an i64
        k.s_mov_b64(s[6:7], 1.0)  # an inline float has the operand's width
        k.s_mov_b32(s[8], 1.0)
        k.s_mov_b32(s[9], 0.15915494309189532)

    result = run("gfx950", emit)
    assert result.s64(0) == ONES64 - 2 and result.s64(2) == 0xFFFFFF00
    assert result.s64(4) == 0xFFFFFFFFFFFFFFF0
    assert result.s64(6) == 0x3FF0000000000000 and result.s(8) == 0x3F800000 and result.s(9) == 0x3E22F983


SAVE: dict[str, Callable[[int, int], int]] = LOGIC | {"andn1": lambda a, b: ~a & b, "orn1": lambda a, b: ~a | b}


@pytest.mark.parametrize("name", sorted(SAVE))
def test_saveexec(name: str) -> None:
    masks, sources = samples(64, 12, 11), samples(64, 12, 12)
    sources[0] = masks[0]
    result = run("gfx950", lambda k: k.emit(f"s_{name}_saveexec_b64", s[8:9], s[0:1]), waves=12, exec_mask=np.array(masks, np.uint64),
                 sgprs=scalars(sources, 64, 0))
    for wave in range(12):
        expected = SAVE[name](sources[wave], masks[wave]) & ONES64
        assert result.s64(8, wave) == masks[wave] and result.s64(126, wave) == expected
        assert bool(result.machine.scc[wave]) == (expected != 0)
    lanes = result.group.lanes()
    assert [int("".join("01"[bit] for bit in lanes[wave][::-1].astype(int)), 2) for wave in range(12)] == [result.s64(126,
                                                                                                                      w) for w in range(12)]


@pytest.mark.parametrize("name", ["andn1", "andn2"])
def test_wrexec_gives_the_new_mask(name: str) -> None:
    result = run("gfx950", lambda k: k.emit(f"s_{name}_wrexec_b64", s[8:9], s[0:1]), exec_mask=0xFF00FF00FF, sgprs={0: 0x0FF0, 1: 0x0F})
    expected = SAVE[name](0x0F00000FF0, 0xFF00FF00FF)
    assert result.s64(8) == result.exec_mask == expected & ONES64 and result.scc


def test_relative_scalars() -> None:
    def emit(k: Builder) -> None:
        k.s_movrels_b32(s[20], s[2])
        k.s_movrels_b64(s[22:23], s[4:5])
        k.s_movreld_b32(s[30], s[1])
        k.s_movreld_b64(s[40:41], s[0:1])

    result = run("gfx950", emit, waves=2, sgprs={124: [2, 6], 0: 100, 1: 101, 4: 14, 6: 16, 7: 17, 8: 18, 10: 20, 11: 21})
    assert (result.s(20, 0), result.s(20, 1)) == (14, 18)
    assert (result.s64(22, 0), result.s64(22, 1)) == (16 | 17 << 32, 20 | 21 << 32)
    assert (result.s(32, 0), result.s(36, 1)) == (101, 101)
    assert (result.s64(42, 0), result.s64(46, 1)) == (100 | 101 << 32,) * 2
    assert (result.s(32, 1), result.s(36, 0)) == (0, 0)


def test_special_sources() -> None:
    def emit(k: Builder) -> None:
        k.s_mov_b64(s[0:1], Special("src_shared_base"))
        k.s_mov_b64(s[2:3], Special("src_private_base"))
        k.s_mov_b32(s[4], Special("src_shared_base"))
        k.s_mov_b32(s[5], Special("src_scc"))
        k.s_mov_b32(s[6], Special("src_vccz"))
        k.s_mov_b32(s[7], Special("src_execz"))
        k.s_mov_b64(s[8:9], Special("src_shared_limit"))

    result = run("gfx950", emit, scc=True, vcc=0, exec_mask=1 << 40)
    assert result.s64(0) & ONES32 == 0 and result.s64(2) & ONES32 == 0
    assert len({result.s(1), result.s(3), 0}) == 3
    assert [result.s(n) for n in (4, 5, 6, 7)] == [0, 1, 1, 0]
    assert result.s64(8) == result.s64(0) + ONES32


def test_hardware_registers() -> None:
    def emit(k: Builder) -> None:
        k.s_getreg_b32(s[0], HwReg(1))
        k.s_getreg_b32(s[1], HwReg(1, 4, 4))
        k.s_setreg_imm32_b32(HwReg(1, 0, 4), 0xF5)  # only the field's bits are taken
        k.s_getreg_b32(s[2], HwReg(1))
        k.s_setreg_b32(HwReg(1, 23, 1), s[10])
        k.s_getreg_b32(s[3], HwReg(1))
        k.s_getreg_b32(s[4], HwReg(2, 0, 1))
        k.s_getreg_b32(s[5], HwReg(6, 12, 9))
        k.s_getreg_b32(s[6], HwReg(5, 8, 6))

    machine = new_machine("gfx950", 1, 1, lds_bytes=5000)
    result = run("gfx950", emit, machine=machine, scc=True, sgprs={10: 3})
    assert [result.s(n) for n in range(4)] == [MODE_DEFAULT, MODE_DEFAULT >> 4 & 15, MODE_DEFAULT | 5, MODE_DEFAULT | 5 | 1 << 23]
    assert result.s(4) == 1 and result.s(5) == 4 and result.s(6) == 63


def test_chiplet_goes_round_the_workgroups() -> None:
    machine = new_machine("gfx950", 10, 10)
    machine.first_workgroup = 5
    result = run("gfx950", lambda k: k.s_getreg_b32(s[0], HwReg(20)), machine=machine)
    assert [result.s(0, wave) for wave in range(10)] == [5, 6, 7, 0, 1, 2, 3, 4, 5, 6]


def test_clocks_grow() -> None:
    def emit(k: Builder) -> None:
        k.s_memtime(s[0:1])
        k.s_memtime(s[2:3])
        k.s_memrealtime(s[4:5])
        k.s_memrealtime(s[6:7])

    result = run("gfx950", emit)
    assert result.s64(0) < result.s64(2) and result.s64(4) < result.s64(6)


def test_vskip_skips_vector_instructions_only() -> None:
    def emit(k: Builder) -> None:
        k.s_setvskip(s[0], 5)
        k.v_mov_b32(v[0], 1)
        k.s_mov_b32(s[1], 2)
        k.s_setvskip(0, 0)
        k.v_mov_b32(v[1], 3)

    skipped = run("gfx950", emit, sgprs={0: 1 << 5})
    assert skipped.v(0)[0, 0] == 0 and skipped.s(1) == 2 and skipped.v(1)[0, 0] == 3
    assert run("gfx950", emit, sgprs={0: ~(1 << 5) & ONES32}).v(0)[0, 0] == 1


LANES = np.arange(64, dtype=np.uint32)


def indexed(modes: int, index: int, emit: Callable[[Builder], object], **given: object) -> Result:
    def body(k: Builder) -> None:
        k.s_set_gpr_idx_on(s[0], modes)
        emit(k)
        k.s_set_gpr_idx_off()
        k.v_mov_b32(v[9], v[2])

    return run("gfx942", body, m0=0xABCD0F00, sgprs={0: index | 0xFF00}, vgprs={n: LANES + 100 * n for n in range(9)},
               agprs={n: LANES + 1000 * n for n in range(1, 4)}, **given)  # type: ignore[arg-type]


def test_relative_sources_move_src0_alone() -> None:
    result = indexed(1, 3, lambda k: k.v_sub_u32(v[20], v[1], v[2]))
    assert (result.v(20)[0] == LANES * 0 + 400 - 200).all()
    assert (result.v(9)[0] == LANES + 200).all()  # off again
    assert result.s(124) == 0xABCD1F03  # bits 11:8 and 31:16 of M0 stay


def test_relative_operands_one_by_one() -> None:
    assert (indexed(2, 3, lambda k: k.v_sub_u32(v[20], v[1], v[2])).v(20)[0] == (100 - 500) & ONES32).all()
    assert (indexed(4, 2, lambda k: k.v_add3_u32(v[20], v[1], v[2], v[3])).v(20)[0] == 3 * LANES + 800).all()
    written = indexed(8, 5, lambda k: k.v_mov_b32(v[20], v[1]))
    assert (written.v(25)[0] == LANES + 100).all() and not written.v(20).any()
    assert (indexed(1, 2, lambda k: k.v_accvgpr_read_b32(v[20], Reg("a", 1))).v(20)[0] == LANES + 3000).all()


def test_relative_addressing_leaves_scalars_alone() -> None:
    result = indexed(1, 3, lambda k: k.v_add_u32(v[20], s[0], v[2]))
    assert (result.v(20)[0] == LANES + 200 + 0xFF03).all()


def test_index_and_mode_change_while_on() -> None:
    def emit(k: Builder) -> None:
        k.s_set_gpr_idx_idx(s[1])
        k.v_mov_b32(v[20], v[1])
        k.s_set_gpr_idx_mode(8)
        k.v_mov_b32(v[21], v[1])
        k.s_mov_b32(m0, 2 | 1 << 12)
        k.v_mov_b32(v[22], v[1])

    def body(k: Builder) -> None:
        k.s_set_gpr_idx_on(s[0], 1)
        emit(k)

    result = run("gfx942", body, m0=0, sgprs={0: 3, 1: 5}, vgprs={n: LANES + 100 * n for n in range(9)})
    assert (result.v(20)[0] == LANES + 600).all() and (result.v(26)[0] == LANES + 100).all() and (result.v(22)[0] == LANES + 300).all()


def test_every_scalar_alu_instruction_is_tested_here() -> None:
    """The table's scalar instructions are all in one of this file's lists, or in those of the schedule's and memory's tests."""
    elsewhere = {"s_getpc_b64", "s_setpc_b64", "s_swappc_b64", "s_call_b64", "s_cbranch_g_fork", "s_cbranch_i_fork", "s_cbranch_join",
                 "s_rfe_b64", "s_rfe_restore_b64"}
    here = {*BINARY, *UNARY, *(f"s_{name}_saveexec_b64" for name in SAVE), "s_andn1_wrexec_b64", "s_andn2_wrexec_b64",
            *(f"s_cmp_{relation}_{kind}" for relation in RELATIONS for kind in ("i32", "u32")), "s_cmp_eq_u64", "s_cmp_lg_u64",
            *(f"s_cmpk_{relation}_{kind}" for relation in RELATIONS for kind in ("i32", "u32")), "s_addc_u32", "s_subb_u32",
            *(f"s_{name}_b{bits}" for name in ("cselect", "cmov", "bitset0", "bitset1", "bitcmp0", "bitcmp1", "movrels", "movreld")
              for bits in (32, 64)), "s_movk_i32", "s_cmovk_i32", "s_addk_i32", "s_mulk_i32", "s_getreg_b32", "s_setreg_b32",
            "s_setreg_imm32_b32", "s_setvskip", "s_set_gpr_idx_on", "s_set_gpr_idx_idx"}
    for arch in ARCHITECTURES:
        scalar = {name for name in names(arch) if opcode(name).encoding in ("SOP1", "SOP2", "SOPC", "SOPK")}
        assert scalar <= here | elsewhere, sorted(scalar - here - elsewhere)


def test_writing_exec_and_vcc_by_scalar_instructions() -> None:
    def emit(k: Builder) -> None:
        k.s_mov_b32(Reg("s", 126), 0xF0)
        k.v_mov_b32(v[0], 7)
        k.s_mov_b64(exec_, -1)
        k.s_mov_b64(vcc, s[0:1])

    result = run("gfx950", emit, exec_mask=0x5 << 32, sgprs={0: 5, 1: 6})
    expected = [7 if lane in (4, 5, 6, 7, 32, 34) else 0 for lane in range(64)]
    assert result.v(0)[0].tolist() == expected and result.exec_mask == ONES64 and result.vcc == 5 | 6 << 32
