"""attention-forward as callers see it: contract, strides, and its float64 reference against one row at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from asmgen.author.contract.contract import ContractError, KernelContract
from asmgen.author.contract.variant import Variant
from asmgen.kernels.attention_forward.family import ATTENTION
from asmgen.kernels.attention_forward.problem import CANARY, make_problem, visible
from asmgen.kernels.attention_forward.work import launch_work, steps_of_tiles

SHAPE = {"b": 2, "hq": 4, "hkv": 2, "sq": 7, "sk": 5}


def contract(d: int = 128, arch: str = "gfx950") -> KernelContract:
    return ATTENTION.contract_of(Variant(ATTENTION.name, arch, (256, 64), (8,), "ping-pong", None, (("d", d),)))


def view(p: Any, arguments: Any, name: str) -> np.ndarray[Any, Any]:
    heads, rows = ("hq", "sq") if name in "qo" else ("hkv", "sk")
    places = [sum(at * p[f"{name}_stride_{letter}"] for at, letter in zip(where, "bhs", strict=True))
              for where in np.ndindex(p["b"], p[heads], p[rows])]
    found = np.stack([arguments[name][place:place + p["d"]] for place in places])
    return found.reshape(p["b"], p[heads], p[rows], p["d"]).astype(np.float64)


@pytest.mark.parametrize(("values", "empty"), [
    ({}, 0), ({"causal": True}, 2), ({"causal": True, "sk": 9}, 0), ({"window": True, "left": 1, "right": 2}, 0),
    ({"window": True, "left": 0, "right": 0, "sk": 3}, 4), ({"causal": True, "window": True, "left": 1, "right": 0}, 2)])
def test_reference_is_attention_row_by_row(values: dict[str, Any], empty: int) -> None:
    """Strides that put heads outside of rows for K and leave room between the rows of O."""
    p = contract(64).resolve_run({**SHAPE, "lse": True, "softmax_scale": 0.3, "k_stride_s": 72, "k_stride_h": 800, "k_stride_b": 1600,
                                  "o_stride_s": 264, **values})
    made = make_problem(p, 5)
    q, k, v = (view(p, made.arguments, name) for name in "qkv")
    o, lse = made.outputs
    left, right = int(p["left"]), 0 if p["causal"] else int(p["right"])
    rows_without_keys = 0
    for b, h, i in np.ndindex(2, 4, 7):
        own = i + int(p["sk"]) - 7
        keys = [j for j in range(int(p["sk"])) if (right < 0 or j <= own + right) and (left < 0 or j >= own - left)]
        if not keys:
            assert (o.expected[b, h, i] == 0).all() and lse.expected[b, h, i] == -math.inf
            rows_without_keys += b == h == 0
            continue
        weights = np.exp(float(np.float32(0.3)) * (k[b, h // 2, keys] @ q[b, h, i]))
        assert np.allclose(o.expected[b, h, i], weights @ v[b, h // 2, keys] / weights.sum(), 1e-12, 1e-12)
        assert np.allclose(lse.expected[b, h, i], np.log(weights.sum()), 1e-12)
    assert rows_without_keys == empty
    untouched = made.arguments["o"].copy()
    untouched[o.select] = 0
    assert (made.arguments["o"] == CANARY).all() and (untouched == CANARY).sum() == untouched.size - 2 * 4 * 7 * 64 > 0


def test_bounds_hold_for_rounded_shares_and_not_for_worse() -> None:
    """P rounded as the second product takes it stays inside of the bound; P rounded a bit earlier or a score off by 2 % does not."""
    p = contract().resolve_run({"hq": 1, "sq": 64, "sk": 300})
    made = make_problem(p, 1)
    q, k, v = (view(p, made.arguments, name)[0, 0] for name in "qkv")
    output = made.outputs[0]

    def worst(bits: int, wrong: float = 1.0) -> float:
        scores = wrong * q @ k.T * 128**-0.5
        shares = np.exp(scores - scores.max(1, keepdims=True))
        mantissa, exponent = np.frexp(shares)
        rounded = np.ldexp(np.round(np.ldexp(mantissa, bits)), exponent - bits)
        return float(np.max(np.abs(rounded @ v / shares.sum(1, keepdims=True) - output.expected) / output.tolerance))

    assert worst(8) < 0.5 and worst(5) > 0.5 and worst(8, 1.02) > 1


def test_folded_reference_takes_the_rounded_queries() -> None:
    plain, folded = (make_problem(contract().resolve_run({"hq": 1, "sq": 32, "sk": 64, "lse": True, "scale": scale}), 2)
                     for scale in ("exact", "folded"))
    assert (plain.arguments["q"] == folded.arguments["q"]).all()
    off = np.abs(plain.outputs[1].expected - folded.outputs[1].expected).max()
    assert 1e-5 < off < 1e-2


@pytest.mark.parametrize(("values", "sentence"), [
    ({"hq": 6, "hkv": 4}, "hq must be a multiple of hkv"), ({"left": 3}, "left and right must be -1"),
    ({"window": True, "causal": True, "right": 1}, "right must be 0 or -1"), ({"q_stride_s": 132}, "multiple of 8"),
    ({"o_stride_h": 120}, "rows of o must not overlap"), ({"o_stride_s": 128}, "rows of o must not overlap"),
    ({"sk": 1 << 20, "k_stride_s": 2048}, "offsets inside of one head"), ({"b": 1 << 14, "hq": 1 << 9}, "workgroups of a grid"),
    ({"softmax_scale": -1.0}, "at least"), ({"rounding": "truncated"}, "rounding must be nearest")])
def test_launches_outside_of_the_contract_are_refused(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ContractError, match=sentence):
        contract().resolve_run({**SHAPE, "hq": 4, "hkv": 4, **values})


def test_defaults_are_those_of_dense_tensors() -> None:
    p = contract(64, "gfx942").resolve_run(SHAPE)
    assert p["softmax_scale"] == 0.125 and p["rounding"] == "nearest" and p["waves"] == 8
    assert contract().resolve_run({**SHAPE, "rounding": "nearest"}) == contract().resolve_run(SHAPE), "what gfx950 does may be asked for"
    assert [p[f"k_stride_{name}"] for name in "bsh"] == [5 * 2 * 64, 2 * 64, 64]
    assert [p[f"o_stride_{name}"] for name in "bsh"] == [7 * 4 * 64, 4 * 64, 64]
    assert contract().grid_of(contract().resolve_run(SHAPE | {"sq": 257})) == (2 * 4 * 2, 1, 1)


@pytest.mark.parametrize(("sq", "sk"), [(1, 1), (700, 700), (513, 90), (90, 513), (256, 64), (769, 1000)])
@pytest.mark.parametrize("values", [{}, {"causal": True}, {"window": True, "left": 70, "right": 5}, {"window": True, "right": 200},
                                    {"window": True, "causal": True, "left": 130}])
def test_steps_reach_from_the_first_visible_key_to_the_last(values: dict[str, Any], sq: int, sk: int) -> None:
    p = contract().resolve_run({"hq": 1, "sq": sq, "sk": sk, **values})
    seen = visible(p)
    assert launch_work(p, (256, 64)).needed_flops == 4 * 128 * seen.sum()
    for number, steps in enumerate(steps_of_tiles(p, (256, 64)).tolist()):
        keys = np.flatnonzero(seen[256 * number:256 * (number + 1)].any(axis=0))
        begins = keys[0] // 64 if len(keys) and values.get("window") else 0
        assert steps == (max(1, -(-(keys[-1] + 1) // 64) - begins) if len(keys) else 1), number


@pytest.mark.slow
def test_work_of_a_launch() -> None:
    """Its small problem has the first workgroup's masked steps, and whole trips less of plain ones."""
    shape = {"b": 2, "hq": 16, "hkv": 8, "sq": 4000, "sk": 4100, "causal": True}
    p = contract().resolve_run(shape)
    work = launch_work(p, (256, 64))
    assert len(work.steps) == 2 * 16 * 16 and work.steps[0] == work.steps.max() == 65 and work.steps.min() == 6
    assert (work.first["sq"], work.first["sk"], work.first["b"], work.first["hq"]) == (160, 4100 - 40 * 64, 1, 1) and work.traced == 25
    assert steps_of_tiles(work.first, (256, 64)).tolist() == [25]
    assert work.read_bytes == 2 * 2 * 128 * (16 * 4000 + 16 * 4100) and work.flops == 4 * 256 * 64 * 128
    assert work.first["q_stride_s"] == 128 and launch_work(contract().resolve_run(
        {**shape, "q_stride_s": 16 * 128 + 8}), (256, 64)).first["q_stride_s"] == 16 * 128 + 8
    make_problem(p, 0)  # at once: nothing is multiplied before somebody asks what comes out
