"""DPP, SDWA and instructions that move values between lanes and scalar registers; and the compiled kernels against numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from asmgen.emulator.machine.errors import EmulatorError
from asmgen.emulator.machine.floatmode import float_mode
from asmgen.emulator.semantics.crosslane import CROSS_LANE
from asmgen.emulator.semantics.fastpath import FAST
from asmgen.emulator.semantics.floats import FLOAT
from asmgen.emulator.semantics.integers import INTEGER
from asmgen.emulator.semantics.rounding import flush, fma64_exact
from asmgen.emulator.semantics.valu import semantic_tables
from asmgen.isa.registers import Modified, a, exec_, s, v, vcc
from tests.emulator_harness import LANES, MODE_DEFAULT, MODE_KEEP, lanes_of, run
from tests.valu_cases import patterns

OLD = 0x5A5A0000
SOURCE = np.arange(64, dtype=np.uint32) + 1000


def dpp(control: dict[str, Any], exec_mask: int = (1 << 64) - 1) -> list[int]:
    """What v_mov_b32 leaves: 1000 + source lane, 0, or the old value + lane."""
    result = run("gfx942", lambda k: k.v_mov_b32(v[1], v[0], **control), vgprs={0: SOURCE, 1: np.arange(64, dtype=np.uint32) + OLD},
                 exec_mask=exec_mask)
    return [int(x) for x in result.v(1)[0]]


CONTROLS: list[tuple[dict[str, Any], Callable[[int], int]]] = [
    ({"quad_perm": (3, 1, 0, 0)}, lambda n: n // 4 * 4 + (3, 1, 0, 0)[n % 4]),
    *[({"row_shl": d}, lambda n, d=d: n + d if n % 16 + d < 16 else -1) for d in (1, 7, 15)],
    *[({"row_shr": d}, lambda n, d=d: n - d if n % 16 >= d else -1) for d in (1, 7, 15)],
    *[({"row_ror": d}, lambda n, d=d: n // 16 * 16 + (n % 16 - d) % 16) for d in (1, 7, 15)],
    ({"wave_shl": 1}, lambda n: n + 1 if n < 63 else -1), ({"wave_rol": 1}, lambda n: (n + 1) % 64),
    ({"wave_shr": 1}, lambda n: n - 1), ({"wave_ror": 1}, lambda n: (n - 1) % 64),
    ({"row_mirror": True}, lambda n: n // 16 * 16 + 15 - n % 16), ({"row_half_mirror": True}, lambda n: n // 8 * 8 + 7 - n % 8),
    ({"row_bcast": 15}, lambda n: n // 16 * 16 - 1), ({"row_bcast": 31}, lambda n: 31 if n >= 32 else -1),
    *[({"row_newbcast": d}, lambda n, d=d: n // 16 * 16 + d) for d in (0, 6, 15)],
]


@pytest.mark.parametrize("control, source", CONTROLS)
def test_dpp_controls(control: dict[str, Any], source: Callable[[int], int]) -> None:
    """Without bound_ctrl a lane without a source keeps its old value; with it 0 comes."""
    kept, zeroed = dpp(control), dpp({**control, "bound_ctrl": 0})
    for lane in range(LANES):
        origin = source(lane)
        assert kept[lane] == (1000 + origin if origin >= 0 else OLD + lane)
        assert zeroed[lane] == (1000 + origin if origin >= 0 else 0)


def test_dpp_masks() -> None:
    got = dpp({"row_newbcast": 3, "row_mask": 0b0110, "bank_mask": 0b1001})
    for lane in range(LANES):
        written = lane // 16 in (1, 2) and lane // 4 % 4 in (0, 3)
        assert got[lane] == (1000 + lane // 16 * 16 + 3 if written else OLD + lane)


def test_dpp_of_inactive_source_lanes() -> None:
    mask = 0x0F0F_FFFF_F0F0_3355
    kept, zeroed = dpp({"row_shr": 1}, mask), dpp({"row_shr": 1, "bound_ctrl": 0}, mask)
    active = lanes_of(mask)
    for lane in range(LANES):
        valid = lane % 16 > 0 and active[lane - 1]
        assert kept[lane] == (1000 + lane - 1 if active[lane] and valid else OLD + lane)
        assert zeroed[lane] == (OLD + lane if not active[lane] else 1000 + lane - 1 if valid else 0)


def test_dpp_arithmetic_with_modifiers_and_carry() -> None:
    first, second = np.arange(-30, 34).astype(np.float32), np.arange(64).astype(np.float32) / np.float32(4)
    result = run("gfx950", lambda k: (k.v_add_f32(v[2], Modified(v[0], neg=True), v[1], row_newbcast=5),
                                      k.v_max_f32(v[3], v[0], Modified(v[1], abs=True), row_ror=4),
                                      k.v_add_co_u32(v[4], vcc, v[5], v[6], row_shr=1),
                                      k.v_mov_b64(v[8:9], v[10:11], row_newbcast=2),
                                      k.v_fmac_f32(v[12], v[0], v[1], quad_perm=(1, 0, 3, 2))),
                 vgprs={0: first, 1: second, 4: np.full(64, 77, np.uint32), 5: np.full(64, 0xFFFFFFFF, np.uint32),
                        6: np.arange(64, dtype=np.uint32),
                        10: np.arange(64, dtype=np.uint64) << np.uint64(33), 12: np.full(64, 10, np.float32)})
    lanes = np.arange(64)
    assert (result.v(2, np.float32)[0] == second - first[lanes // 16 * 16 + 5]).all()
    assert (result.v(3, np.float32)[0] == np.maximum(first[lanes // 16 * 16 + (lanes % 16 - 4) % 16], second)).all()
    assert (result.v(4)[0] == np.where(lanes % 16 == 0, 77, lanes - 1)).all()
    assert result.vcc == sum(1 << n for n in range(64) if n % 16)
    assert (result.v(8, np.uint64)[0] == (lanes // 16 * 16 + 2).astype(np.uint64) << np.uint64(33)).all()
    assert (result.v(12, np.float32)[0] == np.float32(10) + first[lanes ^ 1] * second).all()


PARTS = {"BYTE_0": (0, 8), "BYTE_1": (8, 8), "BYTE_2": (16, 8), "BYTE_3": (24, 8), "WORD_0": (0, 16), "WORD_1": (16, 16), "DWORD": (0, 32)}
WORDS = np.random.default_rng(2).integers(0, 1 << 32, 64, dtype=np.uint32)
OTHERS = np.random.default_rng(3).integers(0, 1 << 32, 64, dtype=np.uint32)


def part(word: int, name: str, sign: bool) -> int:
    low, size = PARTS[name]
    value = word >> low & (1 << size) - 1
    return value | (0xFFFFFFFF << size & 0xFFFFFFFF) if sign and value >> size - 1 else value


@pytest.mark.parametrize("sign", [False, True])
@pytest.mark.parametrize("name", sorted(PARTS))
def test_sdwa_sources(name: str, sign: bool) -> None:
    operand = Modified(v[0], sext=True) if sign else v[0]
    other = "WORD_1" if name != "WORD_1" else "BYTE_2"
    result = run("gfx942",
                 lambda k: k.emit("v_add_u32_sdwa", v[2], operand, v[1], dst_sel="DWORD", dst_unused="UNUSED_PAD", src0_sel=name,
                                  src1_sel=other),
                 vgprs={0: WORDS, 1: OTHERS})
    for lane in range(LANES):
        expected = part(int(WORDS[lane]), name, sign) + part(int(OTHERS[lane]), other, False) & 0xFFFFFFFF
        assert int(result.v(2)[0, lane]) == expected


@pytest.mark.parametrize("unused", ["UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"])
@pytest.mark.parametrize("name", sorted(PARTS))
def test_sdwa_destinations(name: str, unused: str) -> None:
    mask = 0xFFFF_FFFF_0FF0_FF0F
    result = run("gfx942", lambda k: k.emit("v_mov_b32_sdwa", v[1], v[0], dst_sel=name, dst_unused=unused, src0_sel="DWORD"),
                 vgprs={0: WORDS, 1: OTHERS}, exec_mask=mask)
    low, size = PARTS[name]
    for lane in range(LANES):
        old, value = int(OTHERS[lane]), int(WORDS[lane]) & (1 << size) - 1
        if not mask >> lane & 1:
            expected = old
        elif unused == "UNUSED_PRESERVE":
            expected = old & ~(((1 << size) - 1) << low) | value << low
        else:
            above = 0xFFFFFFFF << low + size & 0xFFFFFFFF if unused == "UNUSED_SEXT" and value >> size - 1 else 0
            expected = value << low | above
        assert int(result.v(1)[0, lane]) == expected & 0xFFFFFFFF


def test_sdwa_floats_and_compares() -> None:
    halves = np.random.default_rng(4).normal(size=(64, 2)).astype(np.float16)
    words = halves.view(np.uint32)[:, 0]
    result = run("gfx942", lambda k: (k.emit("v_cvt_f32_f16_sdwa", v[1], Modified(v[0], neg=True, abs=True), src0_sel="WORD_1"),
                                      k.emit("v_add_f16_sdwa", v[2], v[0], Modified(v[0], neg=True), dst_sel="WORD_1",
                                             dst_unused="UNUSED_PRESERVE",
                                             src0_sel="WORD_1", src1_sel="WORD_0"),
                                      k.emit("v_cmp_eq_u32_sdwa", s[10:11], v[3], v[4], src0_sel="BYTE_1", src1_sel="DWORD"),
                                      k.emit("v_cvt_f32_ubyte0_sdwa", v[5], v[3], src0_sel="BYTE_2")),
                 vgprs={0: words, 2: np.full(64, 0x1234, np.uint32),
                        3: np.arange(64, dtype=np.uint32) << np.uint32(8) | np.uint32(0x990000),
                        4: np.full(64, 9, np.uint32)})
    assert (result.v(1, np.float32)[0] == -np.abs(halves[:, 1].astype(np.float32))).all()
    assert (result.v(2)[0] & 0xFFFF == 0x1234).all()
    assert ((result.v(2)[0] >> 16).astype(np.uint16).view(np.float16) == halves[:, 1] - halves[:, 0]).all()
    assert result.s64(10) == 1 << 9
    assert (result.v(5, np.float32)[0] == 0x99).all()


def test_readlane_writelane_and_readfirstlane() -> None:
    waves = 3
    values = np.arange(waves * 64, dtype=np.uint32).reshape(waves, 64)
    masks = [0xFFFFFFFFFFFFFFF0, 0, 1 << 63]
    result = run("gfx942",
                 lambda k: (k.v_readfirstlane_b32(s[10], v[0]), k.v_readlane_b32(s[11], v[0], s[4]), k.v_readlane_b32(s[12], v[0], 63),
                                      k.v_writelane_b32(v[1], 44, s[4]), k.v_writelane_b32(v[2], -3, 17), k.v_writelane_b32(v[3], s[5], 9)),
                 vgprs={0: values, 1: np.zeros((waves, 64), np.uint32), 2: np.zeros((waves, 64), np.uint32)},
                 sgprs={4: [5, 70, 40], 5: [100, 200, 300]}, exec_mask=masks, waves=waves)
    assert [result.s(10, wave) for wave in range(waves)] == [4, 64, 128 + 63]
    assert [result.s(11, wave) for wave in range(waves)] == [5, 64 + 6, 128 + 40]
    assert [result.s(12, wave) for wave in range(waves)] == [63, 127, 191]
    written = np.zeros((waves, 64), np.uint32)
    for wave, (lane, value) in enumerate([(5, 44), (6, 44), (40, 44)]):
        written[wave, lane] = value
    assert (result.v(1) == written).all()
    assert result.v(3)[:, 9].tolist() == [100, 200, 300]
    assert (result.v(2)[:, 17] == 0xFFFFFFFD).all() and result.v(2).astype(bool).sum() == waves


def test_swap_honours_exec() -> None:
    result = run("gfx950", lambda k: k.v_swap_b32(v[0], v[1]), vgprs={0: WORDS, 1: OTHERS}, exec_mask=0xFF)
    active = lanes_of(0xFF)
    assert (result.v(0)[0] == np.where(active, OTHERS, WORDS)).all() and (result.v(1)[0] == np.where(active, WORDS, OTHERS)).all()


@pytest.mark.parametrize("rows", [16, 32])
def test_permlane_swap(rows: int) -> None:
    """docs/facts/semantics.md section 6: odd rows (halves) of the first trade places with even ones of the second."""
    result = run("gfx950", lambda k: k.emit(f"v_permlane{rows}_swap_b32", v[0], v[1]), vgprs={0: np.arange(64, dtype=np.uint32),
                 1: np.arange(64, dtype=np.uint32) + 100})
    for lane in range(LANES):
        odd = lane // rows % 2
        assert int(result.v(0)[0, lane]) == (100 + lane - rows if odd else lane)
        assert int(result.v(1)[0, lane]) == (100 + lane if odd else lane + rows)


@pytest.mark.parametrize("modifiers", [{}, {"bound_ctrl": 1}, {"fi": 1}])
def test_permlane_swap_under_partial_exec(modifiers: dict[str, int]) -> None:
    mask = 0x00FF_FFFF_F0F0_0FFF
    active = lanes_of(mask)
    result = run("gfx950", lambda k: k.emit("v_permlane16_swap_b32_e64", v[0], v[1], **modifiers), exec_mask=mask,
                 vgprs={0: np.arange(64, dtype=np.uint32), 1: np.arange(64, dtype=np.uint32) + 100})
    for lane in range(LANES):
        odd = lane // 16 % 2
        partner = lane - 16 if odd else lane + 16
        for register, trades in ((0, odd), (1, not odd)):
            mine, other = (lane + 100 * register, partner + 100 * (1 - register))
            expected = mine
            if trades and active[lane]:
                expected = other if active[partner] or modifiers.get("fi") else 0 if modifiers.get("bound_ctrl") else mine
            assert int(result.v(register)[0, lane]) == expected


@pytest.mark.parametrize("half", ["lo", "hi"])
def test_mbcnt(half: str) -> None:
    masks, addend = np.uint32(0xF0F0A5A5), np.arange(64, dtype=np.uint32)
    result = run("gfx942", lambda k: (k.emit(f"v_mbcnt_{half}_u32_b32", v[1], s[4], v[0]), k.emit(f"v_mbcnt_{half}_u32_b32", v[2], -1, 0)),
                 vgprs={0: addend}, sgprs={4: int(masks)})
    for lane in range(LANES):
        below = (1 << lane) - 1 >> (32 if half == "hi" else 0) & 0xFFFFFFFF
        assert int(result.v(1)[0, lane]) == (below & int(masks)).bit_count() + lane
        assert int(result.v(2)[0, lane]) == below.bit_count()


def test_accvgprs() -> None:
    result = run("gfx942", lambda k: (k.v_accvgpr_write_b32(a[3], v[0]), k.v_accvgpr_mov_b32(a[4], a[3]), k.v_accvgpr_read_b32(v[1], a[4]),
                                      k.v_accvgpr_write_b32(a[5], 1.0)), vgprs={0: WORDS}, exec_mask=0xFFFF0000)
    active = lanes_of(0xFFFF0000)
    assert (result.v(1)[0] == np.where(active, WORDS, 0)).all()
    assert (result.a(5)[0] == np.where(active, 0x3F800000, 0)).all()


def test_nothing_happens_in_nop_and_clrexcp() -> None:
    result = run("gfx942", lambda k: (k.v_nop(), k.v_clrexcp()), vgprs={0: WORDS})
    assert (result.v(0)[0] == WORDS).all() and exec_.count == 2
    assert {"v_nop", "v_clrexcp"} < set(CROSS_LANE)


def test_an_instruction_without_semantics_is_refused_when_reached() -> None:
    with pytest.raises(EmulatorError, match="no semantics"):
        run("gfx942", lambda k: k.v_screen_partition_4se_b32(v[1], v[0]))


def test_every_vector_mnemonic_has_semantics() -> None:
    from asmgen.isa.table import names

    known = {name for table in semantic_tables().values() for name in table}
    missing = [name for name in names() if name.startswith("v_") and "mfma" not in name and "smfmac" not in name and name not in known
               and not name.startswith(("v_cmp_", "v_cmpx_", "v_bitop3_")) and name not in ("v_pk_mov_b32", "v_screen_partition_4se_b32")]
    assert missing == []


@pytest.mark.parametrize("name", sorted(set(FAST) - {"v_cndmask_b32"}))
def test_compiled_kernels_agree_with_numpy(name: str) -> None:
    """On the special values of all sources; v_exp_f32 to one unit in the last place."""
    generator = np.random.default_rng(7)
    values = [patterns("f32", generator, (64, 64)).astype(np.uint32).view(np.float32) for _ in range(3)]
    count = 3 if "fma" in name or "3" in name.split("_")[1] else 1 if "exp" in name else 2
    for bits in (MODE_DEFAULT, MODE_KEEP, 0x1C0, 0x3D0, 0x3E0):
        mode = float_mode(bits)
        out = np.empty((64, 64), np.float32)
        with np.errstate(all="ignore"):
            FAST[name](mode)(values[:count], out)
            sources = [flush(x) if mode.flush32_in else x for x in values[:count]]
            expected = FLOAT[name](mode, *sources)
            expected = flush(expected) if mode.flush32_out else expected
        assert (np.isnan(out) == np.isnan(expected)).all()
        distance = np.abs(out.view(np.int32).astype(np.int64) - np.asarray(expected).view(np.int32))
        exact = 1 if "exp" in name else 0
        quiet = ~np.isnan(out) if name.split("_")[1] not in ("max", "min", "max3", "min3") else np.ones(out.shape, bool)
        assert distance[quiet].max() <= exact


def test_compiled_selection_agrees_with_numpy() -> None:
    generator = np.random.default_rng(9)
    first, second = (generator.integers(0, 1 << 32, (4, 64), dtype=np.uint32) for _ in range(2))
    chosen = generator.random((4, 64)) < 0.5
    out = np.empty((4, 64), np.uint32)
    FAST["v_cndmask_b32"](float_mode(MODE_DEFAULT))([first, second, chosen], out)
    assert (out == INTEGER["v_cndmask_b32"](first, second, chosen)).all()


def test_compiled_fma_of_f64_agrees_with_integers() -> None:
    generator = np.random.default_rng(8)
    from asmgen.emulator.semantics.kernels import fma_f64

    first, second, third = (patterns("f64", generator, (2000,)).view(np.float64) for _ in range(3))
    out = np.empty(2000)
    fma_f64(first, second, third, out)
    with np.errstate(all="ignore"):
        expected = fma64_exact(first, second, third, 0)
    same = out.view(np.uint64) == expected.view(np.uint64)
    assert (same | np.isnan(out) & np.isnan(expected)).all()


@pytest.mark.parametrize("waves", [1, 64])
def test_partial_exec_in_small_and_large_groups(waves: int) -> None:
    """Masked writes take another way where many waves run together."""
    generator = np.random.default_rng(waves)
    masks = generator.integers(0, 1 << 63, waves, dtype=np.uint64)
    values, old = (generator.integers(0, 1 << 32, (waves, 64), dtype=np.uint32) for _ in range(2))
    select = generator.integers(0, 1 << 63, waves, dtype=np.uint64)
    result = run("gfx942", lambda k: (k.v_add_u32(v[1], 5, v[0]), k.v_cndmask_b32(v[2], v[0], v[1], vcc), k.v_add_f32(v[3], 1.0, v[0])),
                 vgprs={0: values, 1: old, 2: old, 3: old}, exec_mask=masks, vcc=select, waves=waves)
    active = np.stack([lanes_of(int(mask)) for mask in masks])
    chosen = np.stack([lanes_of(int(mask)) for mask in select])
    added = np.where(active, values + np.uint32(5), old)
    assert (result.v(1) == added).all()
    assert (result.v(2) == np.where(active, np.where(chosen, added, values), old)).all()
    assert (result.v(3)[~active] == old[~active]).all()
