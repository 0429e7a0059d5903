"""A product of large K is timed with fewer steps: the prediction is that of all steps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from asmgen.isa.timing import timing
from asmgen.kernels.products.work import product_work
from asmgen.kernels.registry import family
from asmgen.tools.profile_command import report_traced, trace_kernel
from asmgen.tools.running.build import build_kernel


@pytest.mark.parametrize("arch,gpu,variant", [("gfx950", "MI355X", {"tile": "128x128x64", "schedule": "interleave"}),
                                              ("gfx942", "MI300X", {"tile": "128x128x64", "schedule": "interleave"})])
@pytest.mark.slow
def test_the_steps_that_were_left_out_count(objdump: tuple[str, ...], arch: str, gpu: str, variant: dict[str, str]) -> None:
    library = family("gemm-bf16")
    built = build_kernel(library, arch, variant)
    parameters = library.contract(arch, variant).resolve_run({**variant, "m": 4096, "n": 2048, "k": 2304})
    short, whole = (report_traced(trace_kernel(one, built, parameters, 1), timing(gpu), "grid", 1)
                    for one in (library, replace(library, work=None)))
    assert short.steps is not None and short.steps.traced == 20 and short.steps.each[0] == 36 and whole.steps is None
    assert short.run.beside == pytest.approx(whole.run.beside, rel=0.03)
    assert (whole.run.beside > 1) == (whole.estimate.together > 1)
    assert short.cycles == pytest.approx(whole.cycles, rel=0.002) and short.profile.cycles < 0.65 * whole.profile.cycles
    near = 0.003 if short.estimate.together == 1 else 0.01  # what workgroups beside each other lose is taken from the timed steps
    for name in ("seconds", "tflops", "clock"):
        assert getattr(short.estimate, name) == pytest.approx(getattr(whole.estimate, name), rel=near), name
    assert short.estimate.limit == whole.estimate.limit and short.estimate.rounds == whole.estimate.rounds
    assert short.estimate.traffic is not None and whole.estimate.traffic is not None
    assert short.estimate.traffic.llc == pytest.approx(whole.estimate.traffic.llc, rel=0.01)


def test_a_smaller_product_has_rows_at_the_same_places_of_a_line() -> None:
    """Strides of whole lines become dense; others keep their rest of 64 elements of bf16. Few steps stay as they are."""
    library = family("gemm-bf16")
    variant = library.variants("gfx950")[0]
    shape = {"m": 300, "n": 500, "k": 8192}
    dense = library.contract_of(variant).resolve_run(shape)
    work = product_work(dense, variant, 16)
    assert (work.traced, work.first["k"], work.first["lda"], work.first["ldb"]) == (16, 1024, 1024, 1024)
    assert work.steps.tolist() == [128] * 12 and work.flops == 2 * 128 * 128 * 64 and work.read_bytes == 800 * 8192 * 2
    odd = library.contract_of(variant).resolve_run({**shape, "lda": 8200, "ldb": 8256})
    assert [product_work(odd, variant, 16).first[name] for name in ("lda", "ldb")] == [1024 + 8, 1024]
    few = library.contract_of(variant).resolve_run({**shape, "k": 1472, "lda": 9000})
    assert product_work(few, variant, 16).first == few and product_work(few, variant, 16).traced == 23
    eight = family("gemm-fp8").select("gfx950", {"tile": "64x64x128"})
    assert product_work({"m": 64, "n": 64, "batch": 1, "k": 128 * 128, "lda": 16384, "ldb": 16384}, eight, 8).traced == 48
