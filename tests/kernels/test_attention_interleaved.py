"""attention-forward by 4 waves of 64 queries: vector work spread over the windows of the products, right for every number of steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from asmgen.author.emit.builder import Builder
from asmgen.author.schedule.schedules import issue_clk
from asmgen.author.schedule.vectorslots import vector_slots
from asmgen.author.step.effects import Unit
from asmgen.author.step.iterations import PipelineError
from asmgen.isa.errata import odd_low_reads
from asmgen.isa.registers import v
from asmgen.kernels.attention_forward.library import ATTENTION
from tests.kernels.test_attention_forward import CAUSAL, FOLDED, LSE, MOST_WAIT_STATES, Build, held, right
from tests.kernels.test_attention_loop import steady

WAVES, SHORT = ("waves", 4), ("d", 64)
SMALL = {"b": 1, "hq": 1}


@pytest.mark.parametrize(("arch", "asked", "waves"), [
    ("gfx950", {}, 8), ("gfx950", {"d": 64}, 4), ("gfx950", {"d": 64, "waves": 8}, 8), ("gfx950", {"d": 64, "schedule": "ping-pong"}, 8),
    ("gfx950", {"waves": 4}, 4), ("gfx942", {"d": 64}, 8)])
def test_short_rows_are_its_own(arch: str, asked: dict[str, Any], waves: int) -> None:
    """Unless something else is asked for."""
    chosen = ATTENTION.select(arch, asked)
    assert chosen.wave_count == waves and chosen.d == asked.get("d", 128)
    assert ATTENTION.contract(arch, asked).parameter("waves").default == waves


@pytest.mark.parametrize("sk", [1, 64, 449, 577])
def test_every_number_of_steps(sk: int) -> None:
    """The last rows of the second workgroup's waves are beyond the end."""
    right(held("gfx950", (WAVES, LSE)), SMALL | {"sq": 40 if sk < 500 else 300, "sk": sk})


def test_scores_whose_maximum_rises_again_and_again() -> None:
    right(held("gfx950", (WAVES, LSE)), SMALL | {"sq": 256, "sk": 448}, 64.0)


@pytest.mark.parametrize("shape", [
    {"b": 2, "hq": 6, "hkv": 2, "sq": 70, "sk": 90, "o_stride_s": 776}, {"b": 1, "hq": 1, "sq": 300, "sk": 293}])
def test_causal_heads_that_share_keys(shape: dict[str, Any]) -> None:
    """And queries without a key."""
    right(held("gfx950", (WAVES, LSE, CAUSAL, FOLDED)), shape)


@pytest.mark.parametrize(("shape", "logits"), [
    ({"b": 1, "hq": 2, "hkv": 1, "sq": 300, "sk": 333}, 1.0), ({"b": 1, "hq": 1, "sq": 40, "sk": 300}, 64.0)])
def test_short_rows(shape: dict[str, Any], logits: float) -> None:
    """Whose P is scaled and summed by packed instructions; with and without plain steps, and with maxima that rise."""
    right(held("gfx950", (WAVES, LSE, CAUSAL, SHORT)), shape, logits)


@pytest.mark.slow
@pytest.mark.parametrize("build", [(FOLDED, ("rescale", "eager"), ("dtype", "f16")), (SHORT,)])
def test_windows(build: Build) -> None:
    """Eager rescale and another type by the way."""
    right(held("gfx950", (WAVES, LSE, MOST_WAIT_STATES, *build), "serial"), SMALL | {"sq": 90, "sk": 200, "left": 70, "right": 5}, 3.0)


@pytest.mark.parametrize(("build", "products", "most"), [
    ((WAVES, LSE), 128, 4 * 200), ((WAVES, LSE, CAUSAL, FOLDED), 128, 4 * 170), ((WAVES, LSE, CAUSAL, SHORT), 64, 4 * 140)])
def test_instructions_of_two_steps(build: Build, products: int, most: int) -> None:
    """None beside the products is a copy, a nop or an address."""
    (program,) = held("gfx950", build).device.programs.values()
    plain, *masked = steady(program)
    assert not any(odd_low_reads("gfx950", one.name, one.operands, one.modifiers) for one in program.instructions)
    assert sum("mfma" in name for name in plain) == products and len(plain) <= most
    assert not {"s_nop", "v_mov_b32", "v_add_u32", "v_lshlrev_b32", "v_accvgpr_read_b32"} & set(plain)
    assert sum("exp" in name for name in plain) == 128 and sum(name.startswith("ds_read") for name in plain) == 3 * products // 4
    assert len(masked) == (CAUSAL in build) and all(len(one) <= len(plain) + 2 * 136 for one in masked)


def clk(names: list[str]) -> int:
    """What a wave that is alone takes for instructions in order, by docs/facts/measured_gfx950.md sections 0 and 1."""
    now = port = core = 0
    for name in names:
        if name.startswith("v_"):
            now = max(now, port, core if "mfma" in name else 0)
            port = now + (8 if "exp" in name else 4)
        core = now + 32 if "mfma" in name else core
        now += 8 if "mfma" in name else 4
    return max(now, core)


@pytest.mark.parametrize("build", [(WAVES, LSE), (WAVES, LSE, CAUSAL, FOLDED)])
def test_windows_are_not_asked_for_more_than_they_have(build: Build) -> None:
    """The loop takes 3 % more than its products; in emission order, whose windows between the two products are empty, it would take half
    as much again."""
    plain, *_ = (names for program in held("gfx950", build).device.programs.values() for names in steady(program))
    products = [name for name in plain if "mfma" in name]
    assert clk(products) <= clk(plain) <= 1.03 * clk(products)
    assert clk([name for name in plain if "mfma" not in name] + products) > 1.5 * clk(products)


def step(work: Callable[[Builder, int], None]) -> list[Unit]:
    """Eight products, v[16n:16n+15] from v[130:137] each; behind each comes what `work` does."""
    k = Builder("step", "gfx950")
    matrix, vector = k.streams("matrix", "vector")
    with k.section() as section:
        for number in range(8):
            with matrix:
                k.v_mfma_f32_32x32x16_bf16(v[16 * number:16 * number + 15], v[130:133], v[134:137], 0)
            with vector:
                work(k, number)
    return [replace(unit, tag=unit.tag._replace(ordinal=number)) for number, unit in enumerate(section.units)]


def test_vector_work_is_spread_by_clk() -> None:
    """All of it is emitted behind the first product; a window takes what it would if there were no others, to an instruction."""
    def work(k: Builder, number: int) -> None:
        for one in range(20 if number == 0 else 0):
            (k.v_exp_f32 if one < 4 else k.v_mov_b32)(v[140 + one], 1.0)

    units = step(work)
    slots = vector_slots([units], "vector", 32)
    filled = [sum(issue_clk(unit) for unit in units if slots.get(unit.tag.ordinal) == slot) for slot in range(8)]
    assert sum(filled) == 96 and all(8 <= clk <= 16 for clk in filled) and list(slots.values()) == sorted(slots.values())
    assert vector_slots([units], "", 32) == {}


def test_packed_work_stands_at_the_end_of_a_window() -> None:
    """What is before it fills the windows up to there, that one half as much again, as packed work waits there for a product anyway; what
    is behind it fills the others. What other work takes of a window is not given out."""
    def work(k: Builder, number: int) -> None:
        for one in range(24 if number == 0 else 0):
            (k.v_pk_mul_f32 if 8 <= one < 12 else k.v_mov_b32)(*((v[140 + 2 * one:141 + 2 * one], v[200:201], v[202:203])
                                                                if 8 <= one < 12 else (v[140 + 2 * one], 1.0)))

    slots = list(vector_slots([step(work)], "vector", 32).values())
    assert slots[:12] == [0] * 3 + [1] * 2 + [2] * 7 and min(slots[12:]) == 3 and slots == sorted(slots)
    assert not {0, 1} & set(list(vector_slots([step(work)], "vector", 32, [24, 24, 0, 0, 0, 0, 0, 0]).values())[1:])


def test_vector_work_waits_for_results_and_comes_before_who_wants_it() -> None:
    """A product's result is there two windows later, of the step before too; where it is due before that, the step is refused."""
    def late(k: Builder, number: int) -> None:
        if number in (1, 4):
            k.v_mov_b32(v[140 + number], v[16 * number])

    assert list(vector_slots([step(late)], "vector", 32).values()) == [3, 6]

    def seam(k: Builder, number: int) -> None:
        if number == 0:
            k.v_mov_b32(v[140], v[112])

    assert list(vector_slots([step(seam)], "vector", 32).values()) == [1]

    def due(k: Builder, number: int) -> None:
        if number == 4:
            k.v_mov_b32(v[130], v[64])

    with pytest.raises(PipelineError, match="has no slot"):
        vector_slots([step(due)], "vector", 32)
