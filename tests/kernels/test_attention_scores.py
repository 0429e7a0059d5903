"""attention-forward takes every finite score: rows far below and far above zero, rows that jump between both, rows that see nothing.

The reference is float64, typed from the mathematics. Each score is a single product, so float32 has it without an error of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from asmgen.kernels.attention_forward.problem import make_problem
from tests.kernels.test_attention_forward import CAUSAL, LSE, MOST_WAIT_STATES, Build, held
from tests.kernels.test_attention_interleaved import SHORT, WAVES

Array = np.ndarray[Any, Any]
Fill = Callable[[Array, Array, np.random.Generator], None]
EAGER, FOLDED, HALF = ("rescale", "eager"), ("scale", "folded"), ("dtype", "f16")
SIZES = (1.0, -1e31, -1e35, 8e35, 1e36, 3.0, -1e30, 1e9, -3e7, -3e38)


def of_one_size(q: Array, k: Array, random: np.random.Generator) -> None:
    """Each query has scores of one size; keys differ by a quarter, and there are ties."""
    q[:, 0] = np.resize(SIZES, len(q))
    k[:, 0] = random.choice([0.25, 0.5, 0.75, 1.0], len(k))


def of_all_sizes(q: Array, k: Array, random: np.random.Generator) -> None:
    """A query's scores are of several sizes, ordinary ones among them, in any order."""
    count = len(SIZES)
    q[:, :count] = np.where(random.random((len(q), count)) < 0.5, random.choice(SIZES, (len(q), count)),
                            random.standard_normal((len(q), count)))
    k[range(len(k)), random.integers(0, count, len(k))] = random.choice([0.5, 1.0], len(k))


def rising(q: Array, k: Array, _: np.random.Generator) -> None:
    """From one step of keys to the next the scores rise, or fall, from far below zero to far above."""
    levels = (-1e36, -1e31, 5.0, 3e9, 8e35)
    q[:, :5] = levels
    q[::3, :5] = levels[::-1]
    k[range(len(k)), np.arange(len(k)) // 64 % 5] = np.resize([1.0, 0.9375], len(k))


def close_to_huge(q: Array, k: Array, random: np.random.Generator) -> None:
    """Scores, times log2(e), on both sides of 2^26; of the largest that float16 has too."""
    levels = np.array([5e8, 5.3e8, 1.05e9, -5.3e8, -1.1e9, 6e8, 2.0, -4e8]) / 32768
    q[:, :8] = random.choice(levels, (len(q), 8))
    k[range(len(k)), random.integers(0, 8, len(k))] = 32768


def seen(p: dict[str, Any]) -> Array:
    """[sq, sk], bottom-right."""
    own = np.arange(p["sq"])[:, None] + p["sk"] - p["sq"]
    key = np.arange(p["sk"])[None, :]
    right = 0 if p["causal"] else p["right"]
    return ((key <= own + right) | (right < 0)) & ((key >= own - p["left"]) | (p["left"] < 0))


def expected(p: dict[str, Any], q: Array, k: Array, v: Array) -> tuple[Array, Array]:
    """O [sq, d] and LSE [sq]."""
    scale = float(np.float32(p["softmax_scale"]))
    if p["scale"] == "folded":
        q, scale = (q.astype(np.float32) * (np.float32(scale) * np.float32(np.log2(np.e)))).astype(q.dtype), np.log(2)
    scores = np.where(seen(p), scale * (q.astype(np.float64) @ k.astype(np.float64).T), -np.inf)
    largest = scores.max(axis=1)
    weights = np.exp(scores - np.where(np.isfinite(largest), largest, 0)[:, None])
    total = weights.sum(axis=1)
    with np.errstate(divide="ignore"):
        return weights / np.where(total > 0, total, 1)[:, None] @ v.astype(np.float64), np.log(total) + largest


def check(arch: str, build: Build, fill: Fill, shape: dict[str, Any]) -> None:
    on = held(arch, build)
    p = on.contract.resolve_run({**on.build, "b": 1, "hq": 1, "hkv": 1, **shape})
    problem = make_problem(p, 1)
    flat = problem.arguments
    sizes = {"q": p["sq"], "k": p["sk"], "v": p["sk"], "o": p["sq"]}
    q, k, v, o = (flat[name].reshape(size, p["d"]) for name, size in sizes.items())
    wide = [np.zeros((len(rows), p["d"])) for rows in (q, k)]
    fill(*wide, np.random.default_rng(7))
    q[...], k[...] = wide
    right_o, right_lse = expected(p, q, k, v)
    done = on.device.launch(on.record, on.contract.grid_of(p), on.contract.workgroup, flat)
    assert not done.findings
    # P is rounded to 8 bits, or 11, and O again; LSE comes from float32 sums and products.
    unit = 2.0**-11 if p["dtype"] == "f16" else 2.0**-8
    bound = unit * (2 * np.abs(right_o) + np.abs(v.astype(np.float64)).max())
    assert (np.abs(o.astype(np.float64) - right_o) <= bound).all()
    lse = flat["lse"].reshape(-1).astype(np.float64)
    blind = np.isneginf(right_lse)
    assert (lse[blind] == -np.inf).all() and (o[blind] == 0).all()
    assert (np.abs(lse[~blind] - right_lse[~blind]) <= 1e-5 * np.maximum(1, np.abs(right_lse[~blind]))).all()


@pytest.mark.parametrize(("arch", "build", "fill", "shape"), [
    ("gfx950", (LSE,), of_all_sizes, {"sq": 70, "sk": 200}),
    ("gfx950", (LSE,), rising, {"sq": 33, "sk": 330}),
    ("gfx950", (LSE,), of_one_size, {"sq": 20, "sk": 64, "softmax_scale": 0.8}),
    ("gfx950", (WAVES, LSE, CAUSAL, SHORT), of_one_size, {"sq": 90, "sk": 70}),
    ("gfx942", (LSE, MOST_WAIT_STATES, FOLDED, EAGER, HALF), close_to_huge, {"sq": 40, "sk": 100, "left": 20, "right": 5}),
    ("gfx942", (LSE, CAUSAL), rising, {"sq": 40, "sk": 300}),
    ("gfx950", (WAVES, LSE, CAUSAL, FOLDED), of_one_size, {"sq": 50, "sk": 90}),
    ("gfx950", (LSE, MOST_WAIT_STATES), rising, {"sq": 200, "sk": 330, "left": 100, "right": 20}),
    ("gfx950", (WAVES, LSE, MOST_WAIT_STATES, FOLDED, EAGER), rising, {"sq": 90, "sk": 330, "left": 250, "right": 20}),
])
def test_every_finite_score(arch: str, build: Build, fill: Fill, shape: dict[str, Any]) -> None:
    check(arch, build, fill, shape)
