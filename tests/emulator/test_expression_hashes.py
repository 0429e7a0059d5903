"""Expression hashes: equal ones mean equal bits, what is computed counts and not how it is spelled, and what data decides is noted."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from asmgen.emulator.arrival.arrival import Counters
from asmgen.emulator.arrival.findings import Findings
from asmgen.emulator.binding.decode import bind
from asmgen.emulator.hashes.hashmemory import HashMemory
from asmgen.emulator.hashes.nibblecells import codes
from asmgen.emulator.machine.state import Group
from asmgen.emulator.memory.ldsops import LdsContext
from asmgen.emulator.memory.vmem import Context, Deliveries
from asmgen.reader.assembly import read_text
from tests.emulator_harness import MODE_DEFAULT, new_machine

INPUTS = 8


class Hashed:
    """A machine whose v0 to v7 hold 64 samples of the same eight inputs each, and s20 another one."""

    def __init__(self, seed: int = 0, mode: int = MODE_DEFAULT) -> None:
        random_values = np.random.default_rng(seed)
        self.machine = new_machine("gfx950")
        self.machine.mode[:] = mode
        self.machine.binding_mode = mode
        self.memory = HashMemory(self.machine.memory)
        self.follower = self.memory.tracker.attach(self.machine)
        self.context = Context(self.machine, Counters(1), Findings(), Deliveries(self.machine, Counters(1)), None)
        self.lds = LdsContext(self.machine, Counters(1), None, None)
        self.machine.vector[:INPUTS, 0] = random_values.standard_normal((INPUTS, 64)).astype(np.float32).view(np.uint32)
        self.machine.vector[31] = np.arange(64)
        for register in range(INPUTS):
            self.name(register, 1000 + register)

    def name(self, register: int, number: int) -> None:
        """A register holds an element of its own from here on, whatever its value is."""
        made = codes(self.memory.rules.table.made(np.full((1, 64), number, np.uint64), 8), 8)
        self.follower.carrier.shadow.vector[register] = self.memory.tracker.cells.joined(made)

    def text(self, lines: str) -> None:
        (program,) = read_text(f"{lines}\ns_endpgm\n", "gfx950")
        for position, instruction in enumerate(program.instructions[:-1]):
            group = Group(self.machine, np.arange(1), position)
            watch = self.memory.rules.watch(instruction, position, self.follower.carrier)
            with np.errstate(all="ignore"):
                if watch is not None:
                    watch(group)
                if not instruction.is_branch:
                    self.follower.bound(instruction, position)(group)
                    bind(position, instruction, self.machine, self.context, self.lds)(group)

    def of(self, register: int) -> Any:
        """Hashes of a register's lanes."""
        field = self.memory.tracker.cells.expanded(self.follower.carrier.shadow.vector[register, 0])
        return self.memory.rules.table.of(field, self.machine.vector[register, 0])

    def unknown(self, register: int) -> Any:
        """Lanes of a register of which nothing is known."""
        return self.memory.rules.table.unknown(self.memory.tracker.cells.expanded(self.follower.carrier.shadow.vector[register, 0]))

    def constant(self, register: int) -> bool:
        return not self.follower.carrier.shadow.vector[register].any()


SAME = [
    ("v_fma_f32 v8, v0, v1, v2", "v_mov_b32 v8, v2\nv_fmac_f32 v8, v0, v1"),
    ("v_fma_f32 v8, v0, v1, v2", "v_pk_fma_f32 v[8:9], v[0:1], v[0:1], v[2:3] op_sel:[0,1,0]"),
    ("v_add_f32 v8, v0, v1", "v_add_f32 v8, v1, v0"),
    ("v_sub_f32 v8, v0, v1", "v_add_f32 v8, v0, -v1"),
    ("v_subrev_f32 v8, v0, v1", "v_sub_f32 v8, v1, v0"),
    ("v_mul_f32 v8, 2.0, v1", "v_mov_b32 v9, 2.0\nv_mul_f32 v8, v1, v9"),
    ("v_cvt_pk_bf16_f32 v8, v0, v1", "v_cvt_pk_bf16_f32 v9, v1, v2\nv_cvt_pk_bf16_f32 v10, v0, v0\nv_perm_b32 v8, v9, v10, 0x05040302"),
    ("v_and_b32 v8, 0xffff0000, v0", "v_lshrrev_b32 v9, 16, v0\nv_lshlrev_b32 v8, 16, v9"),
    ("v_perm_b32 v8, v0, v1, 0x07060302", "v_lshrrev_b32 v9, 16, v1\nv_and_b32 v10, 0xffff0000, v0\nv_or_b32 v8, v9, v10"),
    ("v_max_f32 v8, v0, v1", "v_max_f32 v8, v1, v0"),
    ("v_add_f32 v8, v0, v1", "v_lshlrev_b32 v9, 2, v31\nds_write_b32 v9, v1\nds_read_b32 v10, v9\nv_add_f32 v8, v0, v10"),
]
DIFFERENT = [
    ("v_add_f32 v8, v0, v1\nv_add_f32 v8, v8, v2", "v_add_f32 v8, v1, v2\nv_add_f32 v8, v8, v0"),
    ("v_fma_f32 v8, v0, v1, v2", "v_mul_f32 v8, v0, v1\nv_add_f32 v8, v8, v2"),
    ("v_sub_f32 v8, v0, v1", "v_sub_f32 v8, v1, v0"),
    ("v_mul_f32 v8, v0, v1", "v_mul_f32 v8, v0, v1 mul:2"),
    ("v_cvt_pk_bf16_f32 v8, v0, v1", "v_perm_b32 v8, v1, v0, 0x07060302"),
    ("v_mov_b32 v8, v0", "v_and_b32 v8, 0xffff0000, v0"),
    ("v_mov_b32 v8, v0", "v_xor_b32 v8, 1, v0"),
    ("v_mul_f32 v8, 2.0, v0", "v_mul_f32 v8, 4.0, v0"),
    ("v_cvt_f16_f32 v8, v0", "v_cvt_pkrtz_f16_f32 v8, v0, 0"),
    ("v_max_f32 v8, v0, v1", "v_min_f32 v8, v0, v1"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_what_is_computed_counts(one: str, other: str) -> None:
    first, second = Hashed(), Hashed()
    first.text(one)
    second.text(other)
    assert (first.of(8) == second.of(8)).all() and not first.constant(8)
    assert (first.machine.vector[8] == second.machine.vector[8]).all()


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_other_computations_have_other_hashes(one: str, other: str) -> None:
    first, second = Hashed(), Hashed()
    first.text(one)
    second.text(other)
    assert not (first.of(8) == second.of(8)).any()


def test_rounding_counts_for_floats_alone() -> None:
    first, second = Hashed(), Hashed(mode=MODE_DEFAULT ^ 3)
    for one in (first, second):
        one.text("v_add_f32 v8, v0, v1\nv_lshlrev_b32 v9, 8, v0\nv_add_u32 v10, v0, v1")
    assert not (first.of(8) == second.of(8)).any()
    assert (first.of(9) == second.of(9)).all() and (first.of(10) == second.of(10)).all()


def test_integers_and_constants_of_the_run_are_constants() -> None:
    run = Hashed()
    run.text("v_add_u32 v8, 5, v31\nv_mul_f32 v9, 2.0, 3.0\nv_cvt_f32_i32 v10, v31\nv_rcp_f32 v11, v10")
    assert all(run.constant(register) for register in (8, 9, 10)), "the run's own"
    assert not run.constant(11), "what the hardware approximates"


PRODUCT = "v_mfma_f32_16x16x32_bf16 v[8:11], v[0:3], v[4:7], {addend}"


def test_matrix_products_depend_on_order_operands_and_addend() -> None:
    plain, swapped, added = Hashed(), Hashed(), Hashed()
    plain.text(PRODUCT.format(addend=0))
    swapped.text("v_swap_b32 v0, v1\nv_swap_b32 v4, v5\n" + PRODUCT.format(addend=0))
    added.text("v_mov_b32 v8, 1.0\nv_mov_b32 v9, 1.0\nv_mov_b32 v10, 1.0\nv_mov_b32 v11, 1.0\n" + PRODUCT.format(addend="v[8:11]"))
    assert not (plain.of(8) == swapped.of(8)).any(), "the same products in another order of k"
    assert not (plain.of(8) == added.of(8)).any()
    again = Hashed()
    again.text("v_mov_b32 v20, v4\nv_mov_b32 v4, v20\n" + PRODUCT.format(addend=0))
    assert (plain.of(8) == again.of(8)).all()


@pytest.mark.parametrize("product", ["v_mfma_f64_4x4x4_4b_f64 v[8:9], v[0:1], v[{a}:{b}], v[2:3]",
                                     "v_mfma_f32_16x16x128_f8f6f4 v[8:11], v[0:5], v[{a}:{a5}], 0 cbsz:2 blgp:3"])
def test_products_of_doubles_and_of_six_bits(product: str) -> None:
    """Known, and of the operands that they have; a bit of an operand makes another expression."""
    def of(register: int, before: str = "") -> Hashed:
        run = Hashed()
        moved = "".join(f"v_mov_b32 v{20 + n}, v{n}\n" for n in range(8))
        run.text(moved + before + product.format(a=register, b=register + 1, a5=register + 5))
        return run

    plain, moved, changed = of(0), of(20), of(20, "v_and_b32 v21, 0xffffffdf, v21\n")
    for result in (8, 9):
        assert (plain.of(result) == moved.of(result)).all() and not (plain.of(result) == changed.of(result)).all()
        assert not plain.unknown(result).any() and not plain.constant(result)


@pytest.mark.parametrize("then", ["v_add_u32 v9, v8, v1", "v_mul_f32 v9, v8, v1", "v_lshlrev_b32 v9, 4, v8", "v_cvt_pk_bf16_f32 v9, v8, v1",
                                  "v_pk_mul_f32 v[9:10], v[8:9], v[0:1]", "v_mfma_f32_4x4x1_16b_f32 v[9:12], v8, v1, 0",
                                  "v_readfirstlane_b32 s4, v8\ns_mul_i32 s4, s4, 3\nv_add_u32 v9, s4, v1",
                                  "v_lshlrev_b32 v10, 2, v31\nds_write_b32 v10, v1\nds_add_u32 v10, v8\nds_read_b32 v9, v10"])
def test_what_is_made_of_the_unknown_is_unknown(then: str) -> None:
    """Sparse products have no rule: whatever takes one would else equal the same of another one."""
    run = Hashed()
    run.text(f"v_smfmac_f32_16x16x32_bf16 v[16:19], v[0:1], v[2:5], v31\nv_mov_b32 v8, v16\n{then}")
    assert run.unknown(9).all()
    plain = Hashed()
    plain.text(f"v_mov_b32 v8, v2\n{then}")
    assert not plain.unknown(9).any()


HALVES = "v_cvt_pk_f16_f32 v33, v0, v1\nv_cvt_pk_f16_f32 v34, v2, v3\n"


@pytest.mark.parametrize(("one", "other"), [
    ("v_pk_add_f16 v8, v33, v34", "v_pk_add_f16 v8, v33, v34 op_sel_hi:[0,1]"),
    ("v_pk_fma_f16 v8, v33, v34, v33", "v_pk_fma_f16 v8, v33, v34, v33 neg_hi:[1,0,0]"),
    ("v_dot2_f32_f16 v8, v33, v34, v4", "v_dot2_f32_f16 v8, v33, v34, v4 neg_lo:[1,0,0]"),
    ("v_fma_mix_f32 v8, v33, v34, v4 op_sel_hi:[1,1,0]", "v_fma_mix_f32 v8, v33, v34, v4 op_sel_hi:[1,0,0]"),
    ("v_cvt_scalef32_pk_f32_fp8 v[8:9], v33, 1.0", "v_cvt_scalef32_pk_f32_fp8 v[8:9], v33, 1.0 op_sel:[1,0]"),
    ("v_cvt_scalef32_pk_f32_fp4 v[8:9], v33, 1.0", "v_cvt_scalef32_pk_f32_fp4 v[8:9], v33, 1.0 op_sel:[1,0]"),
    ("v_cvt_sr_fp8_f32 v8, v0, v31", "v_cvt_sr_fp8_f32 v8, v1, v31"),
    *((text, f"v_mov_b32 v35, v7\n{text}") for text in (
        "v_cvt_scalef32_sr_pk32_fp6_f32 v[8:13], v[32:63], v31, 1.0", "v_cvt_scalef32_2xpk16_bf6_f32 v[8:13], v[32:47], v[48:63], 1.0",
        "v_cvt_scalef32_pk32_fp6_f16 v[8:13], v[32:47], 1.0", "v_cvt_scalef32_pk32_f32_fp6 v[8:39], v[32:37], 1.0"))])
def test_halves_bytes_and_lists_are_told_apart(one: str, other: str) -> None:
    """Modifiers that name halves, the bytes that a conversion takes, and each register of a list."""
    lists = "".join(f"v_mov_b32 v{32 + n}, v{n % 8}\n" for n in range(32)) if "32:" in one else HALVES
    first, second = Hashed(), Hashed()
    first.text(lists + one)
    second.text(lists + other)
    assert not (first.of(8) == second.of(8)).any() and not first.unknown(8).any() and not second.unknown(8).any()


def test_a_carry_of_data_decides_and_is_as_in_the_run() -> None:
    """Of two scalar selections with the same operands, one takes the first and one the second."""
    runs = []
    for compared in ("s_cmp_gt_u32", "s_cmp_le_u32"):
        run = Hashed()
        run.text(f"v_readfirstlane_b32 s4, v0\n{compared} s4, 0\ns_cselect_b32 s5, 1, 2\nv_mov_b32 v8, s5")
        assert any(one.name == "s_cselect_b32" for one in run.memory.rules.decisions.values())
        runs.append(run)
    assert not (runs[0].of(8) == runs[1].of(8)).any()


def test_what_data_decides_is_noted() -> None:
    run = Hashed()
    run.text("v_cmp_gt_i32 vcc, 5, v31\nv_cndmask_b32 v8, v0, v1, vcc\nL_x:\ns_cbranch_vccnz L_x")
    assert not run.memory.decisions, "an index decides"
    run.text("v_cmp_gt_f32 vcc, v0, v1\nv_cndmask_b32 v8, v0, v1, vcc\nL_y:\ns_cbranch_vccnz L_y\nv_cvt_u32_f32 v9, |v0|\n"
             "v_lshlrev_b32 v9, 2, v9\nds_read_b32 v10, v9\ns_and_b64 s[4:5], vcc, exec\ns_mov_b64 s[6:7], s[4:5]\n"
             "v_cndmask_b32 v11, v0, v1, s[6:7]")
    assert [one.name for one in run.memory.decisions] == ["v_cndmask_b32", "s_cbranch_vccnz", "ds_read_b32", "v_cndmask_b32"]


def test_constants_that_are_approximated_decide_nothing() -> None:
    run = Hashed()
    run.text("v_cvt_f32_u32 v8, v31\nv_rcp_iflag_f32 v8, v8\nv_cmp_gt_f32 vcc, v8, 0\nv_cndmask_b32 v9, 1, 2, vcc")
    assert not run.memory.decisions


def test_dead_elements_are_dropped() -> None:
    run = Hashed()
    run.text("v_add_f32 v8, v0, v1\nv_add_f32 v8, v0, v2\nv_perm_b32 v9, v0, v8, 0x07060302")
    before = run.of(8), run.of(9), run.memory.rules.table.used
    run.memory.tracker.limit = 0
    run.memory.tracker.tidy()
    assert run.memory.rules.table.used < before[2]
    assert (run.of(8) == before[0]).all() and (run.of(9) == before[1]).all()


def test_factors_of_products_are_made_anew_where_elements_get_numbers_of_others() -> None:
    """A's registers get other elements of the same values, which then have the numbers of those before."""
    run, product = Hashed(), "v_mfma_f32_16x16x32_bf16 v[8:11], v[4:7], v[0:3], 0"
    shadow = run.follower.carrier.shadow.vector
    run.text(product)
    before, handles = run.of(8), shadow[4:8].copy()
    run.text(product)
    assert (run.of(8) == before).all() and run.follower.carrier.made
    for register in range(4, 8):
        run.name(register, 2000 + register)
    shadow[8:12] = 0
    run.memory.tracker.limit = 0
    run.memory.tracker.tidy()
    assert (shadow[4:8] == handles).all(), "else this would not tell"
    run.text(product)
    assert not (run.of(8) == before).any()


CHOICES = (
    "v_add_f32 {t}, {a}, {b}", "v_sub_f32 {t}, {a}, -{b}", "v_mul_f32 {t}, {a}, {b}", "v_fma_f32 {t}, {a}, {b}, {c}",
    "v_fmac_f32 {t}, {a}, {b}",
    "v_max_f32 {t}, {a}, {b}", "v_cvt_pk_bf16_f32 {t}, {a}, {b}", "v_cvt_f16_f32 {t}, {a}", "v_mov_b32 {t}, {a}", "v_exp_f32 {t}, {a}",
    "v_lshlrev_b32 {t}, 16, {a}", "v_lshrrev_b32 {t}, 8, {a}", "v_lshrrev_b32 {t}, 3, {a}", "v_and_b32 {t}, 0xffff0000, {a}",
    "v_and_b32 {t}, 0xff00f, {a}", "v_or_b32 {t}, {a}, {b}", "v_xor_b32 {t}, 0x80000000, {a}", "v_perm_b32 {t}, {a}, {b}, 0x07060302",
    "v_perm_b32 {t}, {a}, {b}, 0x0c010d0a", "v_bfi_b32 {t}, {a}, {b}, {c}", "v_add_u32 {t}, {a}, {b}", "v_alignbit_b32 {t}, {a}, {b}, 16",
    "v_lshl_or_b32 {t}, {a}, 16, {b}", "v_ashrrev_i32 {t}, 16, {a}", "v_mul_u32_u24 {t}, 0x100, {a}", "v_bfe_u32 {t}, {a}, 16, 16",
    "v_cndmask_b32 {t}, {a}, {b}, s[8:9]", "v_add_u32 {t}, 0, {a}", "v_cvt_i32_f32 {t}, {a}", "v_min_i32 {t}, {a}, {b}",
    "v_sad_u8 {t}, {a}, {b}, {c}", "v_mad_u32_u24 {t}, {a}, {b}, {c}",
)


@pytest.mark.slow
def test_equal_hashes_are_equal_bits_in_random_programs() -> None:
    """Each lane is a sample with inputs of the same names: whatever has one hash must have the same bits for each sample."""
    chance = random.Random(5)
    known: dict[int, Any] = {}
    met = 0
    for _ in range(40):
        run = Hashed()
        run.text("v_cmp_gt_i32 s[8:9], 20, v31")
        for _ in range(12):
            registers = [f"v{chance.randrange(8)}" for _ in range(4)]
            run.text(chance.choice(CHOICES).format(t=registers[0], a=registers[1], b=registers[2], c=registers[3]))
            for register in range(8):
                hashes, bits = run.of(register), run.machine.vector[register, 0].copy()
                for value in np.unique(hashes):
                    lanes = hashes == value
                    if run.constant(register):
                        continue
                    if int(value) in known:
                        met += 1
                        old_lanes, old_bits = known[int(value)]
                        both = lanes & old_lanes
                        assert (bits[both] == old_bits[both]).all()
                    else:
                        known[int(value)] = lanes, bits
    assert len(known) > 300 and met > 1000
