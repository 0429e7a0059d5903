"""attention-forward by 4 waves of 64 queries: vector work spread over the windows of the products, right for every number of steps."""

from __future__ import annotations

import re
from typing import Any

import pytest

from asmgen.isa.errata import odd_low_reads
from asmgen.kernels.attention_forward.library import ATTENTION
from tests.kernels.test_attention_forward import CAUSAL, FOLDED, LSE, MOST_WAIT_STATES, Build, held, made, right
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
def test_windows() -> None:
    """Another type by the way. Rows of 128 are in test_attention_scores."""
    shape = SMALL | {"sq": 90, "sk": 200, "left": 70, "right": 5}
    right(held("gfx950", (WAVES, LSE, MOST_WAIT_STATES, SHORT, ("dtype", "f16")), "serial"), shape, 3.0)


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


@pytest.mark.parametrize("build", [(WAVES, LSE), (WAVES, LSE, CAUSAL, SHORT)])
def test_one_predicted_length_of_a_step(build: Build) -> None:
    """What matrix cores wait for is the rest of the step that the report predicts; packed work holds them up where d is 64."""
    step, *_, told = made("gfx950", build).kernel.remarks
    length = int(re.findall(r"predicted: (\d+) clk", step)[0])
    products = 1024 if SHORT in build else 2048
    waits = int("".join(re.findall(r"matrix cores wait (\d+) clk", told)) or 0)
    assert abs(length - products - waits) <= 4 and (waits > 200) == (SHORT in build)


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
