"""Clocks: what AMD published as reached is never passed, classes of products, attention's line."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from asmgen.author.contract.variant import Variant
from asmgen.emulator.scheduling.trace import WaveTrace
from asmgen.isa.timing import timing
from asmgen.kernels.registry import family
from asmgen.model.estimate import estimate, sustained_clock
from asmgen.model.profile import Profile, profile
from asmgen.model.runsummary import product_class
from asmgen.reader.assembly import read_text
from asmgen.tuning.candidates import Candidate
from asmgen.tuning.prediction import predict
from asmgen.tuning.ranked import trace_candidate

REACHED = {("MI300X", ""): 708, ("MI300X", "f16"): 654, ("MI300X", "fp8"): 1273,
           ("MI325X", ""): 843, ("MI325X", "f16"): 794, ("MI325X", "fp8"): 1519}
"""TFLOPS by GPU and class (docs/facts/microarchitecture.md section 2.7)."""
UNITS, FLOPS = 304, {"": 2048, "f16": 2048, "fp8": 4096}  # section 2.6, of a clk
MFMA = "v_mfma_f32_32x32x16_{} a[{}:{}], v[0:3], v[4:7], a[{}:{}]\n"
F8F6F4 = "v_mfma_f32_32x32x64_f8f6f4 a[0:15], v[0:{}], v[8:{}], a[0:15] cbsz:{} blgp:{}\n"


def timed(body: str, rounds: int = 50, before: str = "", arch: str = "gfx950", gpu: str = "MI355X") -> Profile:
    """A loop of one wave on each SIMD."""
    code = read_text(f"{before}s_mov_b32 s20, 9\nL:\n{body}s_sub_u32 s20, s20, 1\ns_cbranch_scc0 L\ns_endpgm\n", arch)[0]
    tail = next(at for at, one in enumerate(code.instructions) if one.is_branch) + 1
    head = before.count("\n") + 1
    positions = (*range(head), *tuple(range(head, tail)) * rounds, *range(tail, len(code.instructions)))
    return profile(code, [WaveTrace(0, wave, positions, ()) for wave in range(4)], timing(gpu), "l2")


def products(type_: str, count: int = 4) -> str:
    return "".join(MFMA.format(type_, *(16 * n, 16 * n + 15) * 2) for n in range(count))


@pytest.mark.parametrize(("gpu", "products"), REACHED)
@pytest.mark.parametrize("fastest", [False, True])
def test_no_density_passes_what_was_reached(gpu: str, products: str, fastest: bool) -> None:
    """At the clock of a density matrix cores do no more than AMD reached, and at full density nearly that."""
    table = timing(gpu).at_end(False) if fastest else timing(gpu)
    reach = [density * sustained_clock(table, density, False, products) * UNITS * FLOPS[products] / 1e6
             for density in np.linspace(0, 1, 201).tolist()]
    assert 0.995 * REACHED[gpu, products] < reach[-1] <= max(reach) <= REACHED[gpu, products]


def is_fast(variant: Variant) -> bool:
    """Whether it has matrix instructions, and no other variant does the same products with less beside them: tiles of less than 64 x 64
    are predicted at less than half of what was reached."""
    return variant.schedule != "dot-products" and math.prod((variant.tile or (64, 64))[:2]) >= 64 * 64 \
        and not {"last_resort", "dropout"} & {one for one, value in variant.further if value}


def fast_variants() -> Iterator[tuple[str, Variant]]:
    """Of each tile the first that is declared, which is the family's choice: what waits more is further from any limit."""
    for name in ("gemm-bf16", "gemm-fp8", "attention-forward"):
        yield from {(name, one.tile): (name, one) for one in reversed(family(name).variants("gfx942")) if is_fast(one)}.values()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "variant"), list(fast_variants()), ids=str)
def test_no_variant_passes_what_was_reached(objdump: tuple[str, ...], name: str, variant: Variant) -> None:
    """Each fast variant of gfx942 in a launch that fills the GPU, on both GPUs; the largest tiles come near."""
    library = family(name)
    shape = {"b": 4, "hq": 32, "hkv": 32, "sq": 4096, "sk": 4096} if name == "attention-forward" else {"m": 4864, "n": 4096, "k": 8192}
    given = {**library.fixed(variant), **shape}
    contract = library.contract_of(variant)
    resolved = contract.resolve_run(given)
    (traced,) = trace_candidate(library, "gfx942", Candidate(resolved, given, {one: value for one, value in resolved.items()
                                                                            if contract.parameter(one).kind == "build"}))
    for gpu in ("MI300X", "MI325X"):
        found = predict(traced, timing(gpu), "grid", 1)
        ceiling = REACHED[gpu, product_class(found.profile)]
        assert found.estimate.tflops < ceiling, (gpu, found.estimate.tflops)
        if "256x256" in str(variant) and variant.schedule == "ping-pong":
            assert found.estimate.tflops > 0.8 * ceiling, (gpu, found.estimate.tflops)


def test_classes_of_products() -> None:
    """8-bit floats win over smaller ones, which they slow down; so does what there is most of."""
    half, brain = timed(products("f16"), 400), timed(products("bf16"), 400)
    assert product_class(half) == "f16" and product_class(brain) == "" and half.cycles == brain.cycles
    assert product_class(timed(products("bf16", 3) + products("f16", 1))) == "" and product_class(timed("v_mov_b32 v0, v1\n")) == ""
    for cbsz, blgp, last, its, expected in ((0, 0, 7, 15, "fp8"), (1, 4, 7, 11, "fp8"), (4, 4, 3, 11, "fp4"), (2, 4, 5, 11, "fp4")):
        assert product_class(timed(F8F6F4.format(last, its, cbsz, blgp))) == expected
    old = "v_mfma_f32_16x16x32_bf8_fp8 v[8:11], v[0:1], v[2:3], v[8:11]\n"
    assert product_class(timed(old, arch="gfx942", gpu="MI300X")) == "fp8"


def test_classes_have_clocks_of_their_own() -> None:
    chosen = timing("MI355X")
    clocks = [sustained_clock(chosen, 0.98, products=name) for name in ("fp8", "", "f16", "fp4")]
    assert clocks == pytest.approx([1680, 1600, 1492.8, 1449.6]) and all(sustained_clock(chosen, 0, products=name) == 2400
                                                                       for name in ("fp8", "", "f16", "fp4"))
    half, brain = timed(products("f16"), 400), timed(products("bf16"), 400)
    assert estimate(half, 256, 1).clock < estimate(brain, 256, 1).clock
    assert estimate(half, 256, 1).limit == estimate(brain, 256, 1).limit == "power"


def test_attention_has_the_clock_of_its_loop() -> None:
    """Long ends and a last round with few workgroups leave the density of the loop, and so the clock, as they were; units without a
    workgroup do not."""
    body = products("bf16") + "v_exp_f32 v8, v9\n" * 4
    short, long = timed(body), timed(body, before="s_sleep 100\n")
    assert short.main_loop is not None and long.main_loop is not None and long.cycles > short.cycles + 6000
    expected = 2714 - 1240 * short.main_loop.matrix_busy
    assert 0.7 < short.main_loop.matrix_busy < 0.95 and long.main_loop.matrix_busy == pytest.approx(short.main_loop.matrix_busy)
    for found in (short, long):
        assert estimate(found, 256, 1).clock == pytest.approx(expected, rel=1e-6)
    half = min(2714 - 1240 * short.main_loop.matrix_busy / 2, 2400 - 600 / 2)  # by the line, and by vector instructions
    assert estimate(long, 128, 1).clock == pytest.approx(half)
    plain_short, plain_long = timed(products("bf16")), timed(products("bf16"), before="s_sleep 100\n")
    assert estimate(plain_long, 256, 1).clock > estimate(plain_short, 256, 1).clock + 100
