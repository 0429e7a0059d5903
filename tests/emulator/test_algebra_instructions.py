"""Float instructions, conversions and matrix instructions on residues."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from asmgen.emulator.algebra.elements import PACKED_WIDTHS
from asmgen.emulator.algebra.residues import HAS_E, HAS_P, HAS_Q, STANDARD, Residues
from asmgen.isa.formats import encode, hardware_format
from asmgen.isa.layouts_mfma import element_bits
from asmgen.isa.opcodes.mfma import MFMA, MfmaRow
from tests.algebra_harness import Followed, Loops, same

VALUES = np.linspace(-3.0, 3.5, 64)

RULES: dict[str, Callable[[Residues, Residues, Residues], Residues]] = {
    "v_subrev_f32 v4, v0, v1": lambda a, b, c: b - a,
    "v_mul_legacy_f32 v4, v0, |v1|": lambda a, b, c: a * (-b).where(VALUES[::-1] < 0, b),
    "v_fma_f32 v4, -v0, v1, -|v2|": lambda a, b, c: -(a * b) - c,
    "v_add_f32 v4, v0, v1 mul:4": lambda a, b, c: (a + b).scaled(2),
    "v_add_f32 v4, v0, v1 div:2": lambda a, b, c: (a + b).scaled(-1),
    "v_max_f32 v4, v0, v1": lambda a, b, c: a.where(VALUES[::-1] <= VALUES, b),
    "v_min_f32 v4, v0, v1": lambda a, b, c: a.where(VALUES[::-1] >= VALUES, b),
    "v_max3_f32 v4, v0, v1, v2": lambda a, b, c: c.where(np.maximum(VALUES, VALUES[::-1]) < 2, a.where(VALUES[::-1] <= VALUES, b)),
    "v_med3_f32 v4, v0, -1.0, 1.0": lambda a, b, c: a.where(np.abs(VALUES) < 1, STANDARD.embedded(np.sign(VALUES))),
    "v_exp_f32 v4, v0": lambda a, b, c: a.exp2(),
    "v_log_f32 v4, |v0|": lambda a, b, c: (-a).where(VALUES < 0, a).log2(),
    "v_rcp_f32 v4, v0": lambda a, b, c: a.reciprocal(),
    "v_rsq_f32 v4, v2": lambda a, b, c: c.hashed("rsq"),
    "v_sqrt_f32 v4, v2": lambda a, b, c: c * c.hashed("rsq"),
    "v_ldexp_f32 v4, v0, -3": lambda a, b, c: a.scaled(-3),
    "v_frexp_mant_f32 v4, v0": lambda a, b, c: a.scaled(-np.frexp(VALUES)[1]),
    "v_fmamk_f32 v4, v0, 0x40000000, v1": lambda a, b, c: a.scaled(1) + b,
    "v_pk_mul_f32 v[4:5], v[0:1], v[2:3]": lambda a, b, c: a * c,
    "v_pk_fma_f32 v[4:5], v[0:1], v[0:1], v[0:1] op_sel_hi:[0,0,0] neg_lo:[0,0,1]": lambda a, b, c: a * a - a,
    "v_pk_add_f32 v[4:5], v[0:1], v[0:1] op_sel:[0,1]": lambda a, b, c: a + b,
    "v_add_f32_dpp v4, v0, v1 row_ror:1 row_mask:0xf bank_mask:0xf":
        lambda a, b, c: a[:, np.arange(64) & 48 | (np.arange(64) - 1) & 15] + b,
    # a quotient as compilers write it
    "v_div_scale_f32 v8, vcc, v1, v1, v0\nv_div_scale_f32 v9, vcc, v0, v1, v0\nv_rcp_f32 v10, v8\nv_fma_f32 v11, -v8, v10, 1.0\n"
    "v_fma_f32 v10, v11, v10, v10\nv_mul_f32 v11, v9, v10\nv_fma_f32 v12, -v8, v11, v9\nv_fma_f32 v11, v12, v10, v11\n"
    "v_fma_f32 v12, -v8, v11, v9\nv_div_fmas_f32 v12, v12, v10, v11\nv_div_fixup_f32 v4, v12, v1, v0":
        lambda a, b, c: a * b.reciprocal(),
}


def prepared(arch: str = "gfx950") -> tuple[Followed, list[Residues]]:
    run = Followed(arch)
    run.machine.vector[31] = np.arange(64)
    return run, [run.give(register, value) for register, value in enumerate((VALUES, VALUES[::-1], 2.0, 0.5))]


@pytest.mark.parametrize("text", RULES, ids=lambda text: text.split("\n")[-1].split(" ")[0])
def test_float_instructions(text: str) -> None:
    run, given = prepared()
    run.text(text)
    assert same(run.number(4), RULES[text](*given[:3]))


def test_exp2_of_minus_infinity_is_zero_and_other_infinities_are_missing() -> None:
    run, _ = prepared()
    run.text("v_mov_b32 v8, 0xff800000\nv_exp_f32 v4, v8\nv_fma_f32 v5, v8, v0, v1\nv_exp_f32 v6, -v8\nv_sub_f32 v7, v8, v2\n"
             "v_exp_f32 v9, v7")
    zero = STANDARD.embedded(np.zeros((1, 64)))
    assert same(run.number(4), zero) and same(run.number(9), zero)
    assert not run.number(5).has.any() and not run.number(6).has.any()


@pytest.mark.parametrize("text", ["v_rndne_f32 v4, v0", "v_cvt_i32_f32 v4, v0", "v_frexp_exp_i32_f32 v4, v0", "v_cvt_f32_i32 v4, v0"])
def test_what_the_run_decides_has_no_element(text: str) -> None:
    run, _ = prepared()
    run.give(4, 1.0)
    run.text(text)
    assert not run.ids(4).any()


@pytest.mark.parametrize("text", ["v_cvt_pknorm_i16_f32 v4, v0, v1", "v_add_f32 v4, v0, v1 clamp", "v_cubeid_f32 v4, v0, v1, v2"])
def test_what_has_no_rule_is_missing_where_it_took_elements(text: str) -> None:
    run, _ = prepared()
    run.text(text)
    assert not run.number(4).has.any()
    run.text("v_mov_b32 v0, 1.0\nv_mov_b32 v1, 1.0\nv_mov_b32 v2, 1.0\n" + text)
    assert not run.ids(4).any()


CONVERSIONS = {
    "v_cvt_f16_f32 v4, v0": [("f16", 0, 0)],
    "v_cvt_pk_bf16_f32 v4, v0, -v1": [("bf16", 0, 0), ("bf16", 16, -1)],
    "v_cvt_pkrtz_f16_f32 v4, v0, v1": [("f16", 0, 0), ("f16", 16, 1)],
    "v_cvt_pk_f16_f32 v4, v0, v1": [("f16", 0, 0), ("f16", 16, 1)],
    "v_cvt_pk_f16_f32 v8, v0, v1\nv_cvt_f32_f16_sdwa v4, v8 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1": [("f32", 0, 1)],
    "v_cvt_pk_fp8_f32 v4, v0, v1\nv_cvt_pk_fp8_f32 v4, v2, v3 op_sel:[0,0,1]":
        [("fp8", 0, 0), ("fp8", 8, 1), ("fp8", 16, 2), ("fp8", 24, 3)],
    "v_cvt_pk_bf8_f32 v8, v0, v1 op_sel:[0,0,1]\nv_cvt_f32_bf8_sdwa v4, v8 src0_sel:BYTE_3": [("f32", 0, 1)],
    "v_cvt_pk_fp8_f32 v8, v0, v1 op_sel:[0,0,1]\nv_cvt_pk_f32_fp8_sdwa v[4:5], v8 src0_sel:WORD_1": [("f32", 0, 0)],
    "v_cvt_sr_fp8_f32 v4, v0, v31 op_sel:[0,0,1,0]": [("fp8", 8, 0)],
    "v_cvt_scalef32_pk_fp4_f32 v4, v0, v1, 1.0\nv_cvt_scalef32_pk_fp4_f32 v4, v2, v3, 1.0 op_sel:[0,0,1,0]":
        [("fp4", 0, 0), ("fp4", 4, 1), ("fp4", 8, 2), ("fp4", 12, 3)],
    "v_cvt_scalef32_pk_fp4_f32 v8, v0, v1, 1.0\nv_cvt_scalef32_pk_f32_fp4 v[4:5], v8, 1.0": [("f32", 0, 0)],
    "v_cvt_scalef32_pk_fp8_f32 v8, v0, v1, 4.0\nv_cvt_scalef32_pk_f32_fp8 v[4:5], v8, 4.0": [("f32", 0, 0)],
}


@pytest.mark.parametrize("text", CONVERSIONS, ids=lambda text: text.split("\n")[-1].split(" ")[0])
def test_conversions_keep_numbers(text: str) -> None:
    run, given = prepared()
    run.text(text)
    for kind, low, source in CONVERSIONS[text]:
        wanted = -given[1] if source == -1 else given[source]
        assert same(run.number(4, kind, low), wanted)


HALVES: dict[str, tuple[str, Callable[..., Residues]]] = {
    "v_pk_add_f16 v4, v0, v1 op_sel:[0,1] op_sel_hi:[1,0]": ("f16", lambda a0, a1, b0, b1, c: [a0 + b1, a1 + b0]),
    "v_pk_fma_f16 v4, v0, v1, v0 neg_lo:[0,0,1] neg_hi:[1,0,0]": ("f16", lambda a0, a1, b0, b1, c: [a0 * b0 - a0, -(a1 * b1) + a1]),
    "v_pk_mul_f16 v4, v0, 2.0 op_sel_hi:[1,0]": ("f16", lambda a0, a1, b0, b1, c: [a0.scaled(1), a1.scaled(1)]),
    "v_dot2_f32_f16 v4, v0, v1, v2": ("f32", lambda a0, a1, b0, b1, c: [a0 * b0 + a1 * b1 + c]),
    "v_dot2c_f32_f16 v2, v0, v1\nv_mov_b32 v4, v2": ("f32", lambda a0, a1, b0, b1, c: [a0 * b0 + a1 * b1 + c]),
    "v_fma_mix_f32 v4, v0, -v2, v1 op_sel:[1,0,0] op_sel_hi:[1,0,1]": ("f32", lambda a0, a1, b0, b1, c: [-(a1 * c) + b0]),
    "v_mov_b32 v4, v1\nv_fma_mixhi_f16 v4, v0, v2, 0 op_sel_hi:[1,0,0]": ("f16", lambda a0, a1, b0, b1, c: [b0, a0 * c]),
}


@pytest.mark.parametrize("text", HALVES, ids=lambda text: text.split("\n")[-1].split(" ")[0])
def test_packed_halves(text: str) -> None:
    run = Followed()
    given = [run.give(register, value, "f16", low) for register, low, value in
             ((0, 0, VALUES), (0, 16, 1.5), (1, 0, VALUES[::-1]), (1, 16, 0.5))]
    kind, rule = HALVES[text]
    wanted = rule(*given, run.give(2, 0.75))
    run.text(text)
    for number, one in enumerate(wanted):
        assert same(run.number(4, kind, 16 * number), one)


def test_atomics_add_up_lane_after_lane() -> None:
    """ds_add_f32 by all lanes to 16 words; ds_pk_add_bf16 to halves; what a maximum of floats leaves is missing."""
    run, given = prepared()
    old = run.give(5, 1.0)
    run.text("v_and_b32 v8, 15, v31\nv_lshlrev_b32 v8, 2, v8\nds_write_b32 v8, v5\nds_add_rtn_f32 v6, v8, v0\nds_read_b32 v4, v8")
    for word in (0, 7, 15):
        total = old[:, 48 + word]
        for turn in range(4):
            assert same(run.number(6)[:, word + 16 * turn], total)
            total = total + given[0][:, word + 16 * turn]
        assert same(run.number(4)[:, word], total)
    run.text("v_cvt_pk_bf16_f32 v9, v0, v1\nv_mov_b32 v10, 0\nds_write_b32 v10, v10\nds_pk_add_bf16 v10, v9\nds_read_b32 v4, v10")
    for low, one in ((0, given[0]), (16, given[1])):
        assert same(run.number(4, "bf16", low)[:, :1], one.sum(1).reshape(1, 1))
    run.text("ds_max_rtn_f32 v6, v8, v0\nds_read_b32 v4, v8")
    assert not run.number(4).has.any()


def test_scaled_conversions_divide_and_multiply() -> None:
    run, given = prepared()
    run.text("v_cvt_scalef32_pk_fp8_f32 v4, v0, v1, 4.0\nv_cvt_scalef32_pk_f32_fp8 v[6:7], v4, 0.5")
    assert same(run.number(4, "fp8"), given[0].scaled(-2)) and same(run.number(7), given[1].scaled(-3))


@pytest.mark.parametrize("text,kind", [("v_cvt_f16_f32 v4, v0", "f16"), ("v_cvt_pk_fp8_f32 v4, v0, v0", "fp8")])
def test_what_overflows_is_missing(text: str, kind: str) -> None:
    run, _ = prepared()
    run.give(0, np.where(np.arange(64) < 32, 1.0, 1e6))
    run.text(text)
    assert (run.number(4, kind).has != 0).tolist() == [[True] * 32 + [False] * 32]


@pytest.mark.parametrize("text,kind,most", [("v_cvt_scalef32_pk_fp4_f32 v4, v0, v0, 1.0", "fp4", 6.0),
                                            ("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1\nv_cvt_pk_fp8_f32 v4, v0, v0", "fp8", 448.0)])
def test_what_saturates_is_the_largest_number(text: str, kind: str, most: float) -> None:
    """As with a select; what is rounded to the largest number keeps what it is, what is NaN has no residue."""
    run, _ = prepared()
    if kind == "fp8":
        run.machine.binding_mode |= 1 << 23
    number = run.give(0, np.select([np.arange(64) < 16, np.arange(64) < 32, np.arange(64) < 63], [1.0, 1.03 * most, -1e6], np.nan))
    run.text(text.rpartition("\n")[2])
    wanted = number.where(np.arange(64) < 32, STANDARD.embedded(-most)).where(np.arange(64) < 63, Residues.missing((1, 64)))
    assert same(run.number(4, kind), wanted)


def _fill(run: Followed, register: int, count: int, kind: str) -> None:
    """Registers full of small integers in a format, with elements that are those integers: whatever is exact is then the run's own."""
    width = PACKED_WIDTHS[kind]
    values = run.random.integers(-3, 4, (64, 32 * count // width)).astype(np.float64)
    if kind == "f64":
        codes = values.view(np.uint64)
    elif kind in ("f32", "xf32"):
        codes = values.astype(np.float32).view(np.uint32)
    elif kind == "bf16":
        codes = values.astype(np.float32).view(np.uint32) >> np.uint32(16)
    elif kind == "f16":
        codes = values.astype(np.float16).view(np.uint16).astype(np.uint32)
    else:
        codes = encode(values, hardware_format(kind, run.machine.arch), "nearest_even", True).astype(np.uint32)
    one = codes.dtype.type(1)
    bits = (codes[..., None] >> np.arange(width, dtype=codes.dtype) & one).astype(np.uint8).reshape(64, -1)
    words = np.packbits(bits, axis=1, bitorder="little").view(np.uint32)
    run.machine.vector[register:register + count, 0] = words.T
    slots = np.zeros((64, 8 * count), np.uint32)
    slots[:, (width * np.arange(values.shape[1]) + width - 1) // 4] = run.algebra.table.made(STANDARD.embedded(values), kind)
    run.follower.carrier.shadow.vector[register:register + count, 0] = run.algebra.tracker.cells.joined(slots.reshape(64, count, 8)).T


def _rows() -> list[MfmaRow]:
    return [row for row in MFMA.values() if row.cd_type in ("f32", "f64")]


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("row", _rows(), ids=lambda row: row.name)
@pytest.mark.slow_after_first
def test_matrix_products_of_integers_are_the_runs_own(row: MfmaRow, compiled: bool) -> None:
    """All shapes and layouts: D of exact integers embeds as the integers that the run finds. Some of them have no elements."""
    arch = "gfx950" if "gfx950" in row.archs else "gfx942"
    formats = [("fp8", "fp4", 0, 4), ("bf8", "fp8", 1, 0), ("fp6", "bf6", 2, 3)] if row.f8f6f4 else [(row.a_type, row.b_type, 0, 0)]
    for a, b, cbsz, blgp in formats:
        run = Followed(arch)
        run.machine.work = Loops(compiled)
        counts = [max(1, edge * row.k // part * row.blocks * element_bits(kind) // 2048) for edge, kind, part in
                  ((row.m, a, 2 if row.sparse else 1), (row.n, b, 1))]
        _fill(run, 0, counts[0], a)
        _fill(run, 16, counts[1], b)
        _fill(run, 64, row.cd_regs, row.cd_type)
        if 32 % element_bits(b) == 0:
            run.follower.carrier.shadow.vector[16, 0, 8:24] = 0
        names = [f"v[{first}:{first + count - 1}]" if count > 1 else f"v{first}" for first, count in ((0, counts[0]), (16, counts[1]))]
        target = f"v[64:{63 + row.cd_regs}]"
        text = f"{row.name} {target}, {names[0]}, {names[1]}, {'v40' if row.sparse else target}"
        if row.sparse:
            run.machine.vector[40] = run.random.integers(0, 1 << 32, run.machine.vector[40].shape, np.uint32)  # some name one k twice
        if row.scaled:
            run.machine.vector[40], run.machine.vector[41] = 0x7F807E81, 0x807F7F80  # by byte, 2**-1 to 2**2
            text += ", v40, v41 op_sel:[1,0,0] op_sel_hi:[0,1,0]"
        if row.f8f6f4:
            text += f" cbsz:{cbsz} blgp:{blgp}"
        run.text(text)
        if row.cd_type == "f64":
            words = np.ascontiguousarray(np.moveaxis(run.machine.vector[64:64 + row.cd_regs], 0, -1)).view(np.float64)
            for pair in range(row.cd_regs // 2):
                numbers = run.algebra.table.numbers(run.ids(65 + 2 * pair), "f64", lambda: np.nan)
                assert same(numbers, STANDARD.embedded(words[..., pair])) and not run.ids(64 + 2 * pair).any()
        for register in range(64, 64 + row.cd_regs) if row.cd_type == "f32" else ():
            values = run.machine.vector[register].view(np.float32)
            assert run.ids(register).all() and same(run.number(register), STANDARD.embedded(values))


def _with_operands(compiled: bool) -> Followed:
    """A wave with bf16 of A from v0 on and of B from v16 on."""
    run = Followed()
    run.machine.work = Loops(compiled)
    _fill(run, 0, 4, "bf16")
    _fill(run, 16, 4, "bf16")
    return run


@pytest.mark.parametrize("compiled", [True, False])
def test_a_missing_element_spoils_its_row_alone(compiled: bool) -> None:
    run = _with_operands(compiled)
    run.follower.carrier.shadow.vector[0, 0, 5] = 1  # UNKNOWN, of row 5 of A
    power = run.algebra.table.made(Residues.of(0, [[7]], 0, HAS_P), "bf16")  # of row 6 one residue is known
    run.follower.carrier.shadow.vector[0, 0, 6:7] = run.algebra.tracker.cells.joined(np.array([[0] * 7 + [power[0, 0]]], np.uint32))
    run.text("v_mfma_f32_16x16x32_bf16 v[64:67], v[0:3], v[16:19], 0")
    known = np.array([run.number(register).has[0] for register in range(64, 68)])
    wanted = np.full((4, 64), HAS_Q | HAS_P)
    for row, has in ((5, 0), (6, HAS_P)):
        wanted[row % 4, 16 * (row // 4):16 * (row // 4) + 16] = has
    assert (known == wanted).all()


@pytest.mark.parametrize("compiled", [True, False])
def test_a_logarithm_is_added_to_a_product(compiled: bool) -> None:
    """As a backward pass subtracts the LSE of rows: a compiled product has the numbers alone."""
    run = _with_operands(compiled)
    product, added = "v_mfma_f32_16x16x32_bf16 v[64:67], v[0:3], v[16:19], 0", "v_mfma_f32_16x16x32_bf16 v[4:7], v[0:3], v[16:19], v[4:7]"
    given = [run.give(4, VALUES), run.give(5, VALUES), run.give(6, VALUES), run.give(7, 2.0)]
    run.text(f"{product}\nv_log_f32 v5, v5\nv_mov_b32 v6, 0\n{added}\nv_exp_f32 v8, v5")
    assert run.number(5).has.all() and (run.number(5).has == HAS_E).any()
    for register, addend in zip(range(4, 8), (given[0], given[1].log2(), STANDARD.embedded(np.zeros(64)), given[3]), strict=True):
        assert same(run.number(register), run.number(60 + register) + addend)
    assert same(run.number(8), run.number(65).exp2() * given[1])


def test_of_equal_numbers_a_maximum_takes_the_same_in_any_order() -> None:
    """Lanes that reduce a row in orders of their own agree on it."""
    run, _ = prepared()
    one, other = run.give(0, 2.5), run.give(1, 2.5)
    run.text("v_max_f32 v4, v0, v1\nv_max_f32 v5, v1, v0\nv_max3_f32 v6, v1, 0, v0")
    assert same(run.number(4), run.number(5)) and same(run.number(4), run.number(6))
    assert same(run.number(4), one.where(one.q < other.q, other))
