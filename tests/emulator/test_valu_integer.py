"""Integer and bit instructions of the vector ALU against Python integers, on special and random values under partial EXEC."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from asmgen.emulator.semantics.integers import INTEGER, SATURATING
from asmgen.isa.registers import v
from tests.emulator_harness import run
from tests.valu_cases import run_case

M16, M32, M64 = 0xFFFF, 0xFFFFFFFF, (1 << 64) - 1


def sx(value: int, bits: int = 32) -> int:
    """A pattern as a signed number."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def byte(value: int, number: int) -> int:
    return value >> 8 * number & 255


def sad(a: int, b: int, masked: bool = False) -> int:
    return sum(abs(byte(a, n) - byte(b, n)) for n in range(4) if not masked or byte(b, n))


def perm(a: int, b: int, selector: int) -> int:
    data, result = a << 32 | b, 0
    for n in range(4):
        code = byte(selector, n)
        if code < 8:
            value = byte(data, code)
        elif code < 12:
            value = 255 * (data >> (15, 31, 47, 63)[code - 8] & 1)
        else:
            value = 0 if code == 12 else 255
        result |= value << 8 * n
    return result


def first_bit(value: int, order: Any) -> int:
    return next((n for n, bit in enumerate(order) if value >> bit & 1), M32)


def leading_like_sign(value: int) -> int:
    sign = value >> 31
    return next((n for n in range(1, 32) if value >> 31 - n & 1 != sign), M32)


def bfe_signed(a: int, offset: int, width: int) -> int:
    size = width & 31
    return sx((sx(a) >> (offset & 31)) & (1 << size) - 1, size) & M32 if size else 0


def quad(reference: Any) -> Any:
    return lambda a, b, c: sum(((reference(a >> 8 * n & M32, b) + (c >> 16 * n & M16)) & M16) << 16 * n for n in range(4))


def pack_limited(a: int, b: int, low: int, high: int, signed: bool) -> int:
    parts = [min(max(sx(x) if signed else x, low), high) & M16 for x in (a, b)]
    return parts[0] | parts[1] << 16


def shift_pack(a: int, b: int, c: int, low: int, high: int) -> Any:
    parts = [min(max(sx(x) >> (c & 31), low), high) & 255 for x in (a, b)]
    return lambda old: old & 0xFFFF0000 | parts[0] | parts[1] << 8


def saturate_bytes(a: int) -> int:
    return min(max(sx(a, 16), 0), 255) | min(max(sx(a >> 16, 16), 0), 255) << 8


def mad_wide(a: int, b: int, c: int) -> tuple[int, bool]:
    total = a * b + c
    return total & M64, total > M64


def mad_wide_signed(a: int, b: int, c: int) -> tuple[int, bool]:
    total = sx(a) * sx(b) + sx(c, 64)
    return total & M64, bool(total >> 64 & 1)


def low(reference: Any) -> Any:
    """16-bit results that keep the upper half of their register."""
    return lambda *sources: lambda old: old & 0xFFFF0000 | reference(*sources) & M16


def carry(total: int) -> tuple[int, bool]:
    return total & M32, not 0 <= total <= M32


CASES: dict[str, Any] = {
    "v_mov_b32": lambda a: a, "v_mov_b64": lambda a: a, "v_accvgpr_read_b32": lambda a: a, "v_accvgpr_write_b32": lambda a: a,
    "v_accvgpr_mov_b32": lambda a: a, "v_not_b32": lambda a: ~a & M32, "v_bfrev_b32": lambda a: int(f"{a:032b}"[::-1], 2),
    "v_ffbh_u32": lambda a: first_bit(a, range(31, -1, -1)), "v_ffbl_b32": lambda a: first_bit(a, range(32)),
    "v_ffbh_i32": leading_like_sign,
    "v_prng_b32": lambda a: (a << 1 ^ (197 if a >> 31 else 0)) & M32, "v_sat_pk_u8_i16": saturate_bytes,
    "v_cndmask_b32": lambda a, b, c: b if c else a,
    "v_add_u32": lambda a, b: a + b & M32, "v_sub_u32": lambda a, b: a - b & M32, "v_subrev_u32": lambda a, b: b - a & M32,
    "v_add_i32": lambda a, b: a + b & M32, "v_sub_i32": lambda a, b: a - b & M32,
    "v_add_u16": lambda a, b: a + b & M16, "v_sub_u16": lambda a, b: a - b & M16, "v_subrev_u16": lambda a, b: b - a & M16,
    "v_add_i16": low(lambda a, b: a + b), "v_sub_i16": low(lambda a, b: a - b),
    "v_add_co_u32": lambda a, b: carry(a + b), "v_sub_co_u32": lambda a, b: carry(a - b), "v_subrev_co_u32": lambda a, b: carry(b - a),
    "v_addc_co_u32": lambda a, b, c: carry(a + b + c), "v_subb_co_u32": lambda a, b, c: carry(a - b - c),
    "v_subbrev_co_u32": lambda a, b, c: carry(b - a - c),
    "v_mul_lo_u32": lambda a, b: a * b & M32, "v_mul_lo_u16": lambda a, b: a * b & M16, "v_mul_hi_u32": lambda a, b: a * b >> 32,
    "v_mul_hi_i32": lambda a, b: sx(a) * sx(b) >> 32 & M32,
    "v_mul_u32_u24": lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) & M32, "v_mul_i32_i24": lambda a, b: sx(a, 24) * sx(b, 24) & M32,
    "v_mul_hi_u32_u24": lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 32, "v_mul_hi_i32_i24": lambda a,
    b: sx(a, 24) * sx(b, 24) >> 32 & M32,
    "v_and_b32": lambda a, b: a & b, "v_or_b32": lambda a, b: a | b, "v_xor_b32": lambda a, b: a ^ b, "v_xnor_b32": lambda a,
    b: ~(a ^ b) & M32,
    "v_lshlrev_b32": lambda a, b: b << (a & 31) & M32, "v_lshrrev_b32": lambda a, b: b >> (a & 31),
    "v_ashrrev_i32": lambda a, b: sx(b) >> (a & 31) & M32, "v_lshlrev_b16": lambda a, b: b << (a & 15) & M16,
    "v_lshrrev_b16": lambda a, b: b >> (a & 15), "v_ashrrev_i16": lambda a, b: sx(b, 16) >> (a & 15) & M16,
    "v_lshlrev_b64": lambda a, b: b << (a & 63) & M64, "v_lshrrev_b64": lambda a, b: b >> (a & 63),
    "v_ashrrev_i64": lambda a, b: sx(b, 64) >> (a & 63) & M64,
    "v_mad_u32_u24": lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c & M32,
    "v_mad_i32_i24": lambda a, b, c: sx(a, 24) * sx(b, 24) + c & M32, "v_mad_u32_u16": lambda a, b, c: a * b + c & M32,
    "v_mad_i32_i16": lambda a, b, c: sx(a, 16) * sx(b, 16) + c & M32, "v_mad_u64_u32": mad_wide, "v_mad_i64_i32": mad_wide_signed,
    "v_mad_u16": low(lambda a, b, c: a * b + c), "v_mad_i16": low(lambda a, b, c: a * b + c),
    "v_mad_legacy_u16": lambda a, b, c: a * b + c & M16, "v_mad_legacy_i16": lambda a, b, c: a * b + c & M16,
    "v_lshl_add_u32": lambda a, b, c: (a << (b & 31)) + c & M32, "v_add_lshl_u32": lambda a, b, c: (a + b & M32) << (c & 31) & M32,
    "v_lshl_add_u64": lambda a, b, c: (a << (b & 7)) + c & M64, "v_add3_u32": lambda a, b, c: a + b + c & M32,
    "v_xad_u32": lambda a, b, c: (a ^ b) + c & M32, "v_lshl_or_b32": lambda a, b, c: a << (b & 31) & M32 | c,
    "v_and_or_b32": lambda a, b, c: a & b | c, "v_or3_b32": lambda a, b, c: a | b | c,
    "v_bfe_u32": lambda a, b, c: a >> (b & 31) & (1 << (c & 31)) - 1, "v_bfe_i32": bfe_signed, "v_bfi_b32": lambda a, b, c: a & b | ~a & c,
    "v_bfm_b32": lambda a, b: (1 << (a & 31)) - 1 << (b & 31) & M32,
    "v_lerp_u8": lambda a, b, c: sum((byte(a, n) + byte(b, n) + (byte(c, n) & 1) >> 1) << 8 * n for n in range(4)),
    "v_perm_b32": perm, "v_alignbit_b32": lambda a, b, c: (a << 32 | b) >> (c & 31) & M32,
    "v_alignbyte_b32": lambda a, b, c: (a << 32 | b) >> 8 * (c & 3) & M32, "v_bcnt_u32_b32": lambda a, b: a.bit_count() + b & M32,
    "v_sad_u8": lambda a, b, c: sad(a, b) + c & M32, "v_sad_hi_u8": lambda a, b, c: (sad(a, b) << 16) + c & M32,
    "v_sad_u16": lambda a, b, c: abs((a & M16) - (b & M16)) + abs((a >> 16) - (b >> 16)) + c & M32,
    "v_sad_u32": lambda a, b, c: abs(a - b) + c & M32, "v_msad_u8": lambda a, b, c: sad(a, b, True) + c & M32,
    "v_qsad_pk_u16_u8": quad(sad), "v_mqsad_pk_u16_u8": quad(lambda a, b: sad(a, b, True)),
    "v_mqsad_u32_u8": lambda a, b, c: [sad(a >> 8 * n & M32, b, True) + c[n] & M32 for n in range(4)],
    "v_cvt_pk_u16_u32": lambda a, b: pack_limited(a, b, 0, 65535, False), "v_cvt_pk_i16_i32": lambda a,
    b: pack_limited(a, b, -32768, 32767, True),
    "v_ashr_pk_i8_i32": lambda a, b, c: shift_pack(a, b, c, -128, 127), "v_ashr_pk_u8_i32": lambda a, b, c: shift_pack(a, b, c, 0, 255),
    "v_min_u32": min, "v_max_u32": max, "v_min_u16": min, "v_max_u16": max,
    "v_min_i32": lambda a, b: min(sx(a), sx(b)) & M32, "v_max_i32": lambda a, b: max(sx(a), sx(b)) & M32,
    "v_min_i16": lambda a, b: min(sx(a, 16), sx(b, 16)) & M16, "v_max_i16": lambda a, b: max(sx(a, 16), sx(b, 16)) & M16,
    "v_min3_u32": min, "v_max3_u32": max, "v_med3_u32": lambda *x: sorted(x)[1],
    "v_min3_i32": lambda *x: min(map(sx, x)) & M32, "v_max3_i32": lambda *x: max(map(sx, x)) & M32,
    "v_med3_i32": lambda *x: sorted(map(sx, x))[1] & M32,
    "v_min3_u16": low(min), "v_max3_u16": low(max), "v_med3_u16": low(lambda *x: sorted(x)[1]),
    "v_min3_i16": low(lambda *x: min(sx(y, 16) for y in x)), "v_max3_i16": low(lambda *x: max(sx(y, 16) for y in x)),
    "v_med3_i16": low(lambda *x: sorted(sx(y, 16) for y in x)[1]),
}
GFX950 = {"v_prng_b32", "v_ashr_pk_i8_i32", "v_ashr_pk_u8_i32"}
LANE_COUNTS = {"v_mbcnt_lo_u32_b32", "v_mbcnt_hi_u32_b32"}


def test_every_function_has_a_case() -> None:
    assert set(INTEGER) == set(CASES) | LANE_COUNTS


@pytest.mark.parametrize("name", sorted(CASES))
def test_against_python_integers(name: str) -> None:
    for arch in ("gfx950",) if name in GFX950 else ("gfx942", "gfx950"):
        encoding = "VOP1" if name == "v_accvgpr_mov_b32" else None
        run_case(arch, name, CASES[name], encoding=encoding,
                 given={2: [0x03020100, 0x0C0D0B0A, 0x09080706, 0x05FF0400]} if "perm" in name else None)


@pytest.mark.parametrize("name", ["v_add_u32", "v_lshlrev_b32", "v_addc_co_u32", "v_cndmask_b32", "v_min_u16", "v_mul_u32_u24"])
def test_short_encodings(name: str) -> None:
    run_case("gfx942", name, CASES[name], encoding="VOP2")


def limit(value: int, bits: int, signed: bool) -> int:
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return min(max(value, least), most) & (1 << bits) - 1


def quad_limited(reference: Any) -> Any:
    return lambda a, b, c: sum(min(reference(a >> 8 * n & M32, b) + (c >> 16 * n & M16), M16) << 16 * n for n in range(4))


CLAMPED: dict[str, Any] = {
    "v_add_u32": lambda a, b: limit(a + b, 32, False), "v_sub_u32": lambda a, b: limit(a - b, 32, False),
    "v_subrev_u32": lambda a, b: limit(b - a, 32, False), "v_add_u16": lambda a, b: limit(a + b, 16, False),
    "v_sub_u16": lambda a, b: limit(a - b, 16, False), "v_subrev_u16": lambda a, b: limit(b - a, 16, False),
    "v_add_i32": lambda a, b: limit(sx(a) + sx(b), 32, True), "v_sub_i32": lambda a, b: limit(sx(a) - sx(b), 32, True),
    "v_add_i16": low(lambda a, b: limit(sx(a, 16) + sx(b, 16), 16, True)),
    "v_sub_i16": low(lambda a, b: limit(sx(a, 16) - sx(b, 16), 16, True)),
    "v_add_co_u32": lambda a, b: (limit(a + b, 32, False), carry(a + b)[1]), "v_sub_co_u32": lambda a,
    b: (limit(a - b, 32, False), carry(a - b)[1]),
    "v_subrev_co_u32": lambda a, b: (limit(b - a, 32, False), carry(b - a)[1]),
    "v_addc_co_u32": lambda a, b, c: (limit(a + b + c, 32, False), carry(a + b + c)[1]),
    "v_subb_co_u32": lambda a, b, c: (limit(a - b - c, 32, False), carry(a - b - c)[1]),
    "v_subbrev_co_u32": lambda a, b, c: (limit(b - a - c, 32, False), carry(b - a - c)[1]),
    "v_mul_u32_u24": lambda a, b: limit((a & 0xFFFFFF) * (b & 0xFFFFFF), 32, False),
    "v_mul_i32_i24": lambda a, b: limit(sx(a, 24) * sx(b, 24), 32, True),
    "v_mad_u32_u24": lambda a, b, c: limit((a & 0xFFFFFF) * (b & 0xFFFFFF) + c, 32, False),
    "v_mad_i32_i24": lambda a, b, c: limit(sx(a, 24) * sx(b, 24) + sx(c), 32, True),
    "v_mad_u32_u16": lambda a, b, c: limit(a * b + c, 32, False), "v_mad_i32_i16": lambda a, b,
    c: limit(sx(a, 16) * sx(b, 16) + sx(c), 32, True),
    "v_mad_u16": low(lambda a, b, c: limit(a * b + c, 16, False)),
    "v_mad_i16": low(lambda a, b, c: limit(sx(a, 16) * sx(b, 16) + sx(c, 16), 16, True)),
    "v_mad_legacy_u16": lambda a, b, c: limit(a * b + c, 16, False),
    "v_mad_legacy_i16": lambda a, b, c: limit(sx(a, 16) * sx(b, 16) + sx(c, 16), 16, True),
    "v_sad_u8": lambda a, b, c: limit(sad(a, b) + c, 32, False), "v_sad_hi_u8": lambda a, b, c: limit((sad(a, b) << 16) + c, 32, False),
    "v_sad_u16": lambda a, b, c: limit(abs((a & M16) - (b & M16)) + abs((a >> 16) - (b >> 16)) + c, 32, False),
    "v_sad_u32": lambda a, b, c: limit(abs(a - b) + c, 32, False), "v_msad_u8": lambda a, b, c: limit(sad(a, b, True) + c, 32, False),
    "v_qsad_pk_u16_u8": quad_limited(sad), "v_mqsad_pk_u16_u8": quad_limited(lambda a, b: sad(a, b, True)),
    "v_mqsad_u32_u8": lambda a, b, c: [limit(sad(a >> 8 * n & M32, b, True) + c[n], 32, False) for n in range(4)],
    "v_mad_u64_u32": lambda a, b, c: (limit(a * b + c, 64, False), mad_wide(a, b, c)[1]),
    "v_mad_i64_i32": lambda a, b, c: (limit(sx(a) * sx(b) + sx(c, 64), 64, True), mad_wide_signed(a, b, c)[1]),
}


def test_every_saturating_function_has_a_case() -> None:
    assert set(SATURATING) | {"v_mad_u64_u32", "v_mad_i64_i32"} == set(CLAMPED)


@pytest.mark.parametrize("name", sorted(CLAMPED))
def test_clamp_saturates(name: str) -> None:
    run_case("gfx942", name, CLAMPED[name], modifiers={"clamp": True})


@pytest.mark.parametrize("table", [0x00, 0x96, 0xE8, 0xCA, 0x40, 0x01, 0xFF])
def test_bitop3(table: int) -> None:
    def reference(a: int, b: int, c: int) -> int:
        return sum((table >> ((a >> n & 1) << 2 | (b >> n & 1) << 1 | (c >> n & 1)) & 1) << n for n in range(32))

    run_case("gfx950", "v_bitop3_b32", reference, modifiers={"bitop3": table})
    run_case("gfx950", "v_bitop3_b16", low(reference), modifiers={"bitop3": table})


def test_cndmask_where_no_compiled_kernel_takes_it() -> None:
    """SDWA, and MODE with another rounding, go through the table's function."""
    run_case("gfx942", "v_cndmask_b32", CASES["v_cndmask_b32"], mode=0x3C3)
    run_case("gfx950", "v_cndmask_b32", CASES["v_cndmask_b32"], encoding="SDWA")


@pytest.mark.parametrize("uniform", [False, True])
def test_permutations_of_bytes_alone(uniform: bool) -> None:
    """Selectors below 8, which most code has: each lane its own, or one for all."""
    rng = np.random.default_rng(8)
    a, b = (rng.integers(0, 1 << 32, 64, dtype=np.uint32) for _ in range(2))
    selectors = np.full(64, 0x07020601, np.uint32) if uniform else rng.integers(0, 8, (64, 4)).astype(np.uint8).view(np.uint32)[:, 0]
    result = run("gfx942", lambda k: k.v_perm_b32(v[3], v[0], v[1], v[2]), vgprs={0: a, 1: b, 2: selectors})
    assert result.v(3)[0].tolist() == [perm(*map(int, row)) for row in zip(a, b, selectors, strict=True)]
