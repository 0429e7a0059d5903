"""attention-backward on the emulator against float64: odd sizes, groups of heads, strides, wave orders; its reference.

More of its builds, those of ordered sums by steps of any mask among them, are in test_attention_sequences.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from asmgen.author.contract.contract import ContractError
from asmgen.emulator.scheduling.run import Options
from asmgen.kernels.attention_backward.launchwork import launch_work, query_work, steps_of_keys, steps_of_queries
from asmgen.kernels.attention_backward.problem import make_problem, visible
from asmgen.kernels.registry import family
from asmgen.kernels.sequences.kept import kept
from asmgen.tools.running.build import Built, build_kernel
from asmgen.tools.running.runner import RunReport, run_kernel
from asmgen.tuning.traced import trace_launches

LIBRARY = family("attention-backward")
CASES: tuple[tuple[dict[str, Any], dict[str, Any], str], ...] = (
    ({}, {"b": 2, "hq": 1, "sq": 97, "sk": 65, "q_stride_s": 136, "k_stride_s": 144, "v_stride_s": 152, "do_stride_s": 160,
          "dq_stride_s": 136, "dk_stride_s": 168, "dv_stride_s": 176, "o_stride_s": 184}, "random:5"),
    ({"causal": True}, {"b": 1, "hq": 2, "hkv": 1, "sq": 50, "sk": 70, "softmax_scale": 0.5}, "lockstep"),
    ({"causal": True}, {"b": 1, "hq": 1, "sq": 100, "sk": 40}, "lockstep"),
    ({"window": True, "dq_type": "bf16"}, {"b": 1, "hq": 1, "sq": 40, "sk": 600, "left": 0, "right": 1}, "lockstep"),
    ({"d": 64, "causal": True, "dtype": "f16"}, {"b": 1, "hq": 2, "hkv": 1, "sq": 170, "sk": 90, "do_stride_s": 136, "dk_stride_s": 72},
     "random:2"),
    ({"arch": "gfx942"}, {"b": 1, "hq": 2, "hkv": 1, "sq": 100, "sk": 230, "q_stride_s": 264, "k_stride_s": 136, "do_stride_s": 272},
     "random:4"),
    ({"arch": "gfx942", "d": 64, "window": True, "rounding": "truncated"}, {"b": 1, "hq": 1, "sq": 70, "sk": 200, "left": 30, "right": 5},
     "lockstep"),
    ({}, {"b": 1, "hq": 1, "sq": 1, "sk": 1}, "serial"),
    ({"window": True, "dq_type": "bf16"}, {"b": 1, "hq": 1, "sq": 130, "sk": 300, "left": 97, "right": 0}, "lockstep"),
    ({"waves": 8}, {"b": 1, "hq": 2, "hkv": 1, "sq": 40, "sk": 30}, "serial"),
    ({"waves": 8, "causal": True, "dq_type": "bf16"}, {"b": 1, "hq": 1, "sq": 150, "sk": 270, "q_stride_s": 136}, "random:3"),
)


@cache
def built(arch: str = "gfx950", **build: Any) -> Built:
    return build_kernel(LIBRARY, arch, build)


def run(build: dict[str, Any], shape: dict[str, Any], order: str = "lockstep", seed: int = 0) -> RunReport:
    one = built(**build)
    parameters = one.kernel.contract.resolve_run({**one.kernel.parameters, **shape})
    return run_kernel(LIBRARY, one, parameters, "emulator", seed, Options(order=order, count_banks=True), program=one.kernel.program)


@pytest.mark.parametrize("number", range(len(CASES)))
@pytest.mark.slow
def test_right_within_the_bound(number: int) -> None:
    """Steps 1 to 7, one key, keys and queries that fill no tile, rows apart; more keys and fewer than queries, whose first ones then see
    nothing; workgroups whose keys nobody sees; windows whose steps are masked at both ends, at one, and not at all. By even numbers a NaN,
    in builds with masks one of V, which no query meets that does not see its key. Nothing else is written."""
    build, shape, order = CASES[number]
    report = run(build, shape, order, seed=number)
    assert report.passed and report.findings == (), report


@pytest.mark.slow
def test_ordered_sums_have_the_same_bits_in_each_order_of_waves() -> None:
    """Queries that see nothing, in waves that have none and in one that has others too."""
    build = {"dq": "ordered", "causal": True}
    reports = [run(build, {"b": 1, "hq": 1, "sq": 200, "sk": 90}, order, seed=1) for order in ("lockstep", "random:3")]
    assert all(report.passed and not report.findings for report in reports)
    assert len({report.digest for report in reports}) == 1


@pytest.mark.parametrize("build", [{}, {"causal": True}, {"dq": "ordered"}, {"varlen": True}, {"d": 64}, {"dropout": True}])
def test_the_usual_build_is_the_fastest_form(build: dict[str, Any]) -> None:
    """Of 4 waves; 8 take longer by the model (docs/ATTENTION_BACKWARD.md)."""
    assert family("attention-backward").select("gfx950", build).waves == (4,)


def test_limits_of_ordered_sums_are_those_of_a_loop_over_keys() -> None:
    """2^31 elements of 2 bytes lie below 4 GiB, with 128 rows that the loop asks for after the last key."""
    shape = {"b": 1, "hq": 1, "sq": 1, "sk": (1 << 16) - 128}
    for build in ({"dq": "ordered"}, {"dq": "atomic"}):
        contract = LIBRARY.contract("gfx950", build)
        given = {**contract.resolve_build(build), **shape}
        contract.resolve_run({**given, "k_stride_s": 1 << 15})
        if build["dq"] == "atomic":
            contract.resolve_run({**given, "k_stride_s": (1 << 15) + 8})
        else:
            with pytest.raises(ContractError, match=r"\(sk \+ 128\) \* k_stride_s must be at most 2147483648 where dq is ordered"):
                contract.resolve_run({**given, "k_stride_s": (1 << 15) + 8})


@pytest.mark.parametrize("mask", [{}, {"causal": True}, {"window": True, "left": 40, "right": 3}, {"window": True, "left": 0},
                                  {"causal": True, "window": True, "left": 300, "right": 0}])
@pytest.mark.parametrize(("sq", "sk"), [(700, 700), (33, 600), (600, 33), (1, 1)])
def test_steps_are_those_with_a_pair_that_sees_each_other(mask: dict[str, Any], sq: int, sk: int) -> None:
    """Counted in the table of pairs; a mask hides whole steps at both ends only."""
    p = {"b": 1, "hq": 2, "hkv": 1, "sq": sq, "sk": sk, "d": 128, "causal": False, "window": False, "left": -1, "right": -1, **mask}
    seen = visible(p)
    by_queries = [seen[first:first + 256].any(0) for first in range(0, sq, 256)]
    by_keys = [(steps_of_keys(p, step, keys), [seen[:, first:first + keys].any(1) for first in range(0, sk, keys)], step)
               for step, keys in ((32, 256), (16, 192))]
    for found, rows, step in (*by_keys, (steps_of_queries(p), by_queries, 32)):
        assert list(found) == [sum(part[first:first + step].any() for first in range(0, len(part), step)) for part in rows]


def test_a_small_problem_stands_for_a_large_one() -> None:
    """Typed by hand: two heads of queries of 128 steps each, longest first, for 24 (causal: 64) traced ones."""
    for build, traced, mean in (({}, 24, 128.0), ({"causal": True}, 64, 68.0), ({"dq": "ordered"}, 24, 128.0)):
        contract = LIBRARY.contract("gfx950", build)
        p = contract.resolve_run({**contract.resolve_build(build), "b": 2, "hq": 8, "hkv": 4, "sq": 4096})
        work, by_queries = launch_work(p, 32, 256), query_work(p, launch_work(p, 32, 256).first)
        contract.resolve_run(work.first)
        assert work.traced == 2 * traced and by_queries.traced == traced
        assert len(work.steps) == 8 * 16 and len(by_queries.steps) == 16 * 16
        assert work.steps[0] == 256 and work.steps.mean() == 2 * mean and by_queries.steps[0] == 128 and by_queries.steps.mean() == mean
        assert list(work.steps) == sorted(work.steps, reverse=True)


@pytest.mark.slow
def test_both_long_kernels_are_timed_by_their_own_steps() -> None:
    one = built(dq="ordered", causal=True)
    p = one.kernel.contract.resolve_run({**one.kernel.parameters, "b": 1, "hq": 1, "sq": 500})
    delta, main, by_queries = trace_launches(LIBRARY, one.kernel, one.code_object, p)
    assert delta.steps is None and main.steps is not None and by_queries.steps is not None
    assert list(main.steps.each) == [16, 8] and list(by_queries.steps.each) == [16, 8] and by_queries.steps.traced == 16


def test_queries_that_see_nothing_have_no_gradient() -> None:
    p = LIBRARY.contract("gfx950", {"causal": True}).resolve_run({"causal": True, "b": 1, "hq": 1, "sq": 9, "sk": 4})
    problem = make_problem(p, 0, nonfinite=False)
    assert np.all(np.asarray(problem.arguments["lse"])[..., :5] == -np.inf) and np.all(np.isfinite(problem.arguments["lse"][..., 5:]))
    (dq,) = (output.expected for output in problem.outputs if output.argument == "dq")
    assert np.all(dq[0, 0, :5] == 0) and np.all(np.any(dq[0, 0, 6:] != 0, axis=-1))


@pytest.mark.parametrize("number", range(20))
def test_the_reference_is_the_derivative(number: int) -> None:
    """Differences of sum(dO O) in float64, at a place of Q, K and V each: groups of heads, masks, sinks, dropout, rows that see nothing."""
    random = np.random.default_rng(number)
    left, right = [(99, 99), (99, 0), (2, 1), (3, 0)][number % 4]
    masks: list[dict[str, Any]] = [{}, {"causal": True}, {"window": True, "left": 2, "right": 1},
                                   {"window": True, "causal": True, "left": 3}]
    (sq, sk), hkv, group = random.integers(1, 9, 2), 1 + number % 2, 1 + number % 3
    d = 128 if number % 5 else 64
    build = {"dtype": "f16", "d": d, "sink": number % 2 == 0, "dropout": number % 3 == 0, **masks[number % 4]}
    draws = {"p": 0.25, "seed": number} if build["dropout"] else {}
    shape = {"b": 1, "hq": hkv * group, "hkv": hkv, "sq": int(sq), "sk": int(sk)}
    p = LIBRARY.contract("gfx950", build).resolve_run({**build, **draws, **shape})
    problem = make_problem(p, number)
    arrays = {name: np.asarray(problem.arguments[name], np.float64).reshape(-1, heads, d)
              for name, heads in (("q", hkv * group), ("k", hkv), ("v", hkv), ("do", hkv * group))}
    gradients = {output.argument: output.expected for output in problem.outputs}
    distance = np.arange(sk)[None, :] - np.arange(sq)[:, None] - (sk - sq)
    seen = (distance <= right) & (-distance <= left)

    def loss(q: Any, k: Any, v: Any, do: Any) -> float:
        total = 0.0
        for head in range(hkv * group):
            weights = np.where(seen, np.exp(p["softmax_scale"] * q[:, head] @ k[:, head // group].T), 0.0)
            of_sink = np.exp(np.float64(problem.arguments["sink"][head])) if build["sink"] else 0.0
            sums = weights.sum(1, keepdims=True) + of_sink
            shares = weights / np.where(sums > 0, sums, 1.0)
            if build["dropout"]:
                shares = shares * kept(p, head, sq, sk) / 0.75
            total += float((do[:, head] * (shares @ v[:, head // group])).sum())
        return total

    step = 1e-5
    for name in "qkv":
        row, head, column = (int(random.integers(size)) for size in arrays[name].shape)
        moved = []
        for sign in (1, -1):
            changed = {key: value.copy() for key, value in arrays.items()}
            changed[name][row, head, column] += sign * step
            moved.append(loss(**changed))
        # O and LSE come rounded, as the kernel gets them: 2^-11 of dO O in delta
        assert abs((moved[0] - moved[1]) / (2 * step) - gradients[f"d{name}"][0, head, row, column]) < 1e-2, name
