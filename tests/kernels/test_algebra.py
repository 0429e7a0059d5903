"""Library kernels in exact algebra: each output is the reference polynomial, and mutants that tolerances hide are not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from asmgen.author.contract.problem import FIRST_HUGE
from asmgen.author.family.family import Family
from asmgen.isa.errors import AsmgenError
from asmgen.kernels.registry import family
from asmgen.program.program import Instruction, Program
from asmgen.tools.proofs.algebrarun import SEED, AlgebraReport, run_algebra
from asmgen.tools.running.build import Built, build_kernel

pytestmark = pytest.mark.slow

CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gemm": ("gemm-bf16", "gfx950", {"tile": "64x64x64", "m": 70, "n": 72, "k": 128, "alpha": 0.3, "beta": -1.7, "bias": "row"}),
    "gemm of f16 to f32": ("gemm-bf16", "gfx942", {"dtype": "f16", "out": "f32", "m": 64, "n": 64, "k": 64}),
    "fp8 by rows": ("gemm-fp8", "gfx950", {"tile": "64x64x128", "scales": "row", "m": 64, "n": 40, "k": 256, "a_dtype": "e5m2",
                                            "out": "f16"}),
    "fp8 by blocks": ("gemm-fp8", "gfx950", {"scales": "block", "tile": "256x128x128", "m": 64, "n": 136, "k": 256}),
    "fp8 of gfx942": ("gemm-fp8", "gfx942", {"m": 64, "n": 64, "k": 128, "beta": 2.0}),
    "attention": ("attention-forward", "gfx950", {"d": 64, "b": 1, "hq": 2, "hkv": 1, "sq": 40, "sk": 150, "causal": True, "lse": True}),
    "attention with dropout": ("attention-forward", "gfx942", {"d": 64, "b": 1, "hq": 1, "sq": 40, "sk": 70, "dropout": True, "p": 0.25}),
    "folded attention": ("attention-forward", "gfx942", {"d": 64, "b": 1, "hq": 1, "sq": 40, "sk": 90, "scale": "folded", "lse": True,
                                                      "rounding": "truncated"}),
    "attention backward": ("attention-backward", "gfx950", {
        "d": 64, "b": 2, "hq": 2, "hkv": 1, "sq": 50, "max_sq": 40, "sk": 70, "max_sk": 60, "causal": True, "varlen": True, "sink": True,
        "dropout": True, "p": 0.25}),
    "mxfp6 with mxfp4": ("gemm-mx", "gfx950", {"tile": "32x128x256", "a_dtype": "fp6", "b_dtype": "fp4", "m": 30, "n": 40, "k": 256}),
    "layer norm": ("norm", "gfx942", {"residual": True, "dropout": True, "bias": True, "save": "stats", "columns": 100, "rows": 3}),
    "rms norm to 8 bits": ("norm", "gfx950", {"kind": "rms", "residual": True, "out": "fp8", "columns": 100, "rows": 3}),
    "layer norm backward": ("norm-backward", "gfx950", {"residual": True, "dropout": True, "dresidual": True, "bias": True, "columns": 61,
                                                        "rows": 5}),
    "softmax of lengths": ("softmax", "gfx950", {"mask": "length", "log": True, "columns": 100, "rows": 9}),
    "softmax backward": ("softmax", "gfx942", {"backward": True, "columns": 100, "rows": 3}),
    "fp8 of tokens": ("quantize", "gfx942", {"columns": 100, "rows": 5}),
    "bf8 of tensors": ("quantize", "gfx950", {"to": "bf8", "group": "tensor", "columns": 100, "rows": 5}),
    "integers of groups": ("quantize", "gfx950", {"to": "int8", "group": "128", "columns": 300, "rows": 5}),
}


@cache
def built(name: str) -> tuple[Family, Built, dict[str, Any]]:
    kernel, arch, values = CASES[name]
    found = family(kernel)
    contract = found.contract(arch, values)
    resolved = contract.resolve_run(values)
    return found, build_kernel(found, arch, {key: resolved[key] for key in resolved if contract.parameter(key).kind == "build"},
                               verify=False), resolved


def run(name: str, program: Program | None = None, seed: int = SEED) -> AlgebraReport:
    found, kernel, resolved = built(name)
    return run_algebra(found, kernel, resolved, seed, program)


@cache
def usual(name: str) -> AlgebraReport:
    """The run of the kernel as it is built, which mutants are compared with."""
    return run(name)


@pytest.mark.parametrize("name", CASES)
def test_outputs_are_the_reference(name: str) -> None:
    report = usual(name)
    assert report.equal, [mismatch.sentence() for mismatch in report.mismatches]
    assert report.elements > 0 and not [finding for finding in report.launch.findings if finding.severity == "error"]


def test_huge_scores_have_a_factor_of_their_own() -> None:
    """What code for huge scores computes is the reference there; it is not executed by other data."""
    name = "attention"
    huge = run(name, seed=FIRST_HUGE + SEED)
    assert huge.equal, [mismatch.sentence() for mismatch in huge.mismatches]
    program = built(name)[1].kernel.program
    counts = zip(program.instructions, huge.launch.counts, usual(name).launch.counts, strict=True)
    code = [instruction for instruction, count, other in counts if count and not other]
    assert any(instruction.name == "v_frexp_exp_i32_f32" for instruction in code)


def changed(name: str, change: Callable[[Instruction], Instruction | None], number: int) -> Program:
    """The program with the number-th executed instruction that `change` takes replaced."""
    program = built(name)[1].kernel.program
    counts = usual(name).launch.counts
    found = [(old, new) for old, count in zip(program.instructions, counts, strict=True) if count and (new := change(old)) is not None]
    old, new = found[number % len(found)]
    return program.with_items(new if item is old else item for item in program.items)


def squared(instruction: Instruction) -> Instruction | None:
    """A product with A in place of B."""
    if not instruction.name.startswith("v_mfma") or len(instruction.operands) < 4:
        return None
    target, first, _, *rest = instruction.operands
    return replace(instruction, operands=(target, first, first, *rest))


def nothing_added(instruction: Instruction) -> Instruction | None:
    """A product without its addend."""
    if not instruction.name.startswith("v_mfma") or instruction.operands[3] == 0:
        return None
    return replace(instruction, operands=(*instruction.operands[:3], 0, *instruction.operands[4:]))


def factor_dropped(instruction: Instruction) -> Instruction | None:
    """A multiplication that leaves out its first factor."""
    if instruction.name not in ("v_mul_f32", "v_pk_mul_f32"):
        return None
    return replace(instruction, operands=(instruction.operands[0], 1.0, instruction.operands[2]))


@pytest.mark.parametrize(("name", "change", "number"), [
    ("gemm", squared, 3), ("gemm", nothing_added, -1), ("gemm", factor_dropped, 0), ("fp8 by blocks", factor_dropped, 5),
    ("attention", nothing_added, -1), ("attention", factor_dropped, 5), ("attention", factor_dropped, -1)])
def test_wrong_terms_are_found(name: str, change: Callable[[Instruction], Instruction | None], number: int) -> None:
    assert not run(name, changed(name, change, number)).equal


def test_a_family_without_a_reference() -> None:
    found = replace(family("01-vector-add"), algebra=None)
    kernel = build_kernel(found, "gfx950", {}, verify=False)
    with pytest.raises(AsmgenError, match="01-vector-add has no reference in exact residues"):
        run_algebra(found, kernel, found.contract("gfx950").resolve_run(dict(found.example)))
