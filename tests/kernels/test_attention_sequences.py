"""Attention with lengths of its sequences' own, with sinks: emulator against float64, references row by row, contracts."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from asmgen.author.contract.contract import ContractError
from asmgen.author.family.family import Family
from asmgen.emulator.scheduling.run import Options
from asmgen.kernels.attention_backward.problem import make_problem as gradients_of
from asmgen.kernels.attention_forward.problem import make_problem
from asmgen.kernels.attention_forward.work import launch_work
from asmgen.kernels.registry import family
from asmgen.kernels.sequences.kept import kept
from asmgen.tools.proofs.algebrarun import run_algebra
from asmgen.tools.running.build import Built, build_kernel
from asmgen.tools.running.runner import RunReport, run_kernel

FORWARD, BACKWARD = family("attention-forward"), family("attention-backward")
BACKWARD_CASES: tuple[tuple[dict[str, Any], dict[str, Any], str], ...] = (
    ({"varlen": True, "causal": True, "sink": True},
     {"b": 4, "hq": 2, "hkv": 1, "sq": 100, "sk": 330, "max_sq": 60, "max_sk": 290, "dq_stride_s": 264, "dk_stride_s": 136}, "lockstep"),
    ({"varlen": True, "padded": True, "dq": "ordered", "window": True, "sink": True, "d": 64, "dtype": "f16"},
     {"b": 4, "hq": 1, "sq": 330, "sk": 110, "max_sq": 270, "max_sk": 70, "left": 40, "right": 20}, "serial"),
    ({"varlen": True, "padded": True, "dropout": True, "rng_state": True, "window": True, "d": 64},
     {"b": 3, "hq": 2, "hkv": 1, "sq": 70, "sk": 300, "max_sq": 60, "max_sk": 190, "left": 90, "right": 20, "p": 0.4, "seed": 5 << 40,
      "offset": (1 << 32) - 7}, "lockstep"),
    ({"arch": "gfx942", "dropout": True, "dq": "ordered", "causal": True},
     {"b": 1, "hq": 2, "hkv": 1, "sq": 70, "sk": 140, "p": 0.25, "seed": 3, "offset": (1 << 32) - 9}, "lockstep"),
)
FOLDED = {"varlen": True, "sink": True, "lse": True, "causal": True, "d": 64, "scale": "folded"}
CASES: tuple[tuple[str, dict[str, Any], dict[str, Any], str], ...] = (
    ("gfx950", {"varlen": True, "lse": True, "causal": True},
     {"b": 5, "hq": 2, "hkv": 1, "sq": 420, "sk": 330, "max_sq": 300, "max_sk": 250}, "random:1"),
    ("gfx942", {"varlen": True, "padded": True, "lse": True, "window": True, "sink": True, "d": 64},
     {"b": 4, "hq": 2, "sq": 150, "sk": 330, "max_sq": 70, "max_sk": 250, "left": 90, "right": 20, "q_stride_s": 136, "o_stride_s": 144},
     "serial"),
    ("gfx950", FOLDED, {"b": 2, "hq": 3, "hkv": 1, "sq": 90, "sk": 70}, "lockstep"),
    ("gfx950", {"dropout": True, "lse": True, "varlen": True, "rng_state": True},
     {"b": 3, "hq": 2, "hkv": 1, "sq": 100, "sk": 200, "max_sq": 60, "max_sk": 150, "p": 0.3, "seed": 0x1234567890ABCDEF,
      "offset": (1 << 32) - 40}, "random:4"),
    ("gfx942", {"dropout": True, "causal": True, "d": 64, "varlen": True, "sink": True, "lse": True, "rng_state": True},  # all SGPRs
     {"b": 2, "hq": 1, "sq": 110, "max_sq": 70, "p": 0.6, "seed": 77, "offset": 12}, "serial"),
    ("gfx942", {"dropout": True, "d": 64, "sink": True, "dtype": "f16", "rounding": "truncated"},  # large scores: P is subnormal
     {"b": 1, "hq": 2, "sq": 40, "sk": 54, "p": 0.9, "seed": 77, "softmax_scale": 1.0}, "serial"),
)


@cache
def built(arch: str, name: str = FORWARD.name, **build: Any) -> Built:
    return build_kernel(family(name), arch, build)


def run(arch: str, build: dict[str, Any], shape: dict[str, Any], order: str, seed: int, of: Family = FORWARD) -> RunReport:
    one = built(arch, of.name, **build)
    parameters = one.kernel.contract.resolve_run({**one.kernel.parameters, **shape})
    return run_kernel(of, one, parameters, "emulator", seed, Options(order=order, count_banks=True), program=one.kernel.program)


@pytest.mark.parametrize("number", range(len(CASES)))
@pytest.mark.slow
def test_right_within_the_bound(number: int) -> None:
    """Empty sequences, queries without keys, workgroups without queries, rows that only pad, a query that sees its sink alone."""
    arch, build, shape, order = CASES[number]
    report = run(arch, build, shape, order, seed=number)
    assert report.passed and report.findings == (), report


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(BACKWARD_CASES)))
def test_gradients_are_right_within_the_bound(number: int) -> None:
    """Sequences without queries have dK = dV = 0, those without keys dQ = 0; padding rows stay as they were."""
    build, shape, order = BACKWARD_CASES[number]
    own = {"arch": "gfx950", **build}
    report = run(own.pop("arch"), own, shape, order, number, BACKWARD)
    assert report.passed and report.findings == (), report


def test_gradient_of_sinks_is_the_derivative() -> None:
    """Differences of sum(dO O) in float64 over each sink; O and LSE come rounded, as the kernel gets them."""
    build = {"sink": True, "causal": True}
    p = BACKWARD.contract("gfx950", build).resolve_run({**build, "b": 2, "hq": 2, "hkv": 1, "sq": 5, "sk": 4})
    problem = gradients_of(p, 1)
    q, k, v, do = (np.asarray(problem.arguments[name], np.float64).reshape(2, -1, heads, 128)
                   for name, heads in (("q", 2), ("k", 1), ("v", 1), ("do", 2)))

    def loss(sinks: Any) -> float:
        total = 0.0
        for b, h, i in np.ndindex(2, 2, 5):
            shares = np.exp([p["softmax_scale"] * q[b, i, h] @ k[b, j, 0] for j in range(i)] + [sinks[h]])
            total += sum(do[b, i, h] @ (share * v[b, j, 0]) for j, share in enumerate(shares[:-1])) / shares.sum()
        return total

    (found,) = (output.expected for output in problem.outputs if output.argument == "dsink")
    sinks = problem.arguments["sink"].astype(np.float64)
    for head in range(2):
        moved = [loss(sinks + sign * 1e-5 * (np.arange(2) == head)) for sign in (1, -1)]
        assert abs((moved[0] - moved[1]) / 2e-5 - found[head]) < 2e-2


def test_what_dropout_keeps_is_typed_from_its_facts() -> None:
    """One element at a time, in Python: counter, key, rounds and the byte of an element (docs/facts/draws.md section 2)."""
    p = {"seed": 0xFEDCBA9876543210, "offset": (1 << 64) - 100, "p": 0.25}
    found = kept(p, 3, 70, 100)
    for i, j in ((0, 0), (7, 31), (8, 32), (15, 33), (23, 64), (31, 99), (32, 5), (69, 98)):
        lane = j % 32 + (32 if i % 32 // 8 in (1, 3) else 0)
        byte = i % 8 + (8 if i % 32 >= 16 else 0)
        count = ((1 << 64) - 100 + 3 * 64 + lane) % (1 << 64)
        c, k = [count % (1 << 32), count >> 32, i // 32, j // 32], [0x76543210, 0xFEDCBA98]
        for _ in range(7):
            one, other = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [other >> 32 ^ c[1] ^ k[0], other % (1 << 32), one >> 32 ^ c[3] ^ k[1], one % (1 << 32)]
            k = [(k[0] + 0x9E3779B9) % (1 << 32), (k[1] + 0xBB67AE85) % (1 << 32)]
        assert found[i, j] == ((c[byte // 4] >> 8 * (byte % 4)) % 256 <= 191), (i, j)
    assert 0.6 < found.mean() < 0.9


def test_expected_rows_are_those_of_their_sequences() -> None:
    """Row by row from the arguments that the kernel gets: rows beyond the lengths stay as they were."""
    build = {"varlen": True, "padded": True, "sink": True, "lse": True, "causal": True, "d": 64}
    p = FORWARD.contract("gfx950", build).resolve_run({**build, "b": 16, "hq": 2, "sq": 90, "sk": 120, "max_sq": 15, "max_sk": 20})
    problem = make_problem(p, 7)
    data = problem.arguments
    q, k, v = (np.asarray(data[name], np.float64).reshape(-1, 2, 64) for name in "qkv")
    found, found_lse = data["o"].astype(np.float64), data["lse"].astype(np.float64)
    o, lse = problem.outputs
    found[o.select], found_lse[lse.select] = o.expected, lse.expected
    found = found.reshape(90, 2, 64)
    lengths = []
    for number in range(16):
        first, last = (int(data["cu_seqlens_q"][number + more]) for more in (0, 1))
        key0, queries, keys = int(data["cu_seqlens_k"][number]), int(data["seqused_q"][number]), int(data["seqused_k"][number])
        lengths.append((queries, keys))
        assert queries <= 15 and keys <= 20
        for head in range(2):
            for i in range(last - first):
                if i >= queries:
                    assert (found[first + i, head] == -123).all() and found_lse[0, head, first + i] == -123
                    continue
                seen = range(max(0, min(keys, i + keys - queries + 1)))
                weights = np.exp([p["softmax_scale"] * q[first + i, head] @ k[key0 + j, head] for j in seen])
                total = weights.sum() + np.exp(float(data["sink"][head]))
                wanted = sum((one * v[key0 + j, head] for one, j in zip(weights, seen, strict=True)), np.zeros(64)) / total
                assert np.allclose(found[first + i, head], wanted, 1e-12, 1e-12)
                assert np.isclose(found_lse[0, head, first + i], np.log(total))
    assert any(0 in one for one in lengths) and any(0 not in one for one in lengths)


@pytest.mark.parametrize(("build", "shape", "sentence"), [
    ({"padded": True}, {}, "padded is for builds with varlen"),
    ({}, {"max_sq": 3}, "must be sq and sk in a build without varlen"),
    ({"varlen": True}, {"max_sk": 9}, "max_sk must be at most sk"),
    ({"varlen": True}, {"b": 2, "max_sq": 3}, r"b \* max_sq must be at least sq")])
def test_lengths_outside_of_the_contract_are_refused(build: dict[str, Any], shape: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ContractError, match=sentence):
        FORWARD.contract("gfx950", build).resolve_run({**build, "hq": 1, "sq": 8, "sk": 8, **shape})


def test_sequences_are_predicted_as_even_ones() -> None:
    build = {"varlen": True}
    contract = FORWARD.contract("gfx950", build)
    p = contract.resolve_run({**build, "b": 4, "hq": 2, "sq": 4000, "max_sq": 3000})
    work = launch_work(p, (256, 64))
    assert work.steps.tolist() == [16] * (4 * 2 * 4) and work.needed_flops == 4 * 4 * 2 * 128 * 1000 * 1000
    contract.resolve_run(work.first)


@pytest.mark.slow
def test_exact_residues() -> None:
    one = built("gfx950", **FOLDED)
    p = one.kernel.contract.resolve_run({**one.kernel.parameters, "b": 3, "hq": 2, "sq": 40, "sk": 150, "max_sq": 30, "max_sk": 100})
    report = run_algebra(FORWARD, one, p)
    assert report.equal and report.elements, [mismatch.sentence() for mismatch in report.mismatches]
