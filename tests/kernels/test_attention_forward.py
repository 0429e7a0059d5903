"""attention-forward on the emulator against float64: 150 drawn launches, canaries, orders of waves, tensors over 4 GiB."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from asmgen.author.contract.contract import KernelContract
from asmgen.codeobject.load import CodeObject, KernelRecord
from asmgen.emulator.scheduling.run import Options
from asmgen.kernels.attention_forward.library import ATTENTION
from asmgen.kernels.attention_forward.problem import CANARY, make_problem
from asmgen.launch.emulated import EmulatedDevice
from asmgen.tools.running.build import Built, build_kernel
from tests.kernels.test_attention_loop import ORDERS, steady

Build = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Held:
    """A build on a device of its own, which keeps what the emulator has made of its code."""

    contract: KernelContract
    record: KernelRecord
    device: EmulatedDevice
    build: dict[str, Any]


@cache
def made(arch: str, build: Build) -> Built:
    return build_kernel(ATTENTION, arch, dict(build))


@cache
def held(arch: str, build: Build, order: str = "lockstep") -> Held:
    built = made(arch, build)
    device = EmulatedDevice(arch, Options(order=order, count_banks=order == "serial"), {built.kernel.resources.name: built.kernel.program})
    return Held(built.kernel.contract, CodeObject.load(built.code_object).kernel(built.kernel.resources.name), device, dict(build))


def right(on: Held, shape: dict[str, Any], logits: float = 1.0) -> None:
    """Everything that the kernel writes is inside of the bound, everything else as it was, and no check has found anything."""
    p = on.contract.resolve_run({**on.build, **shape})
    problem = make_problem(p, 3, logits)
    before = {output.argument: problem.arguments[output.argument].copy() for output in problem.outputs}
    done = on.device.launch(on.record, on.contract.grid_of(p), on.contract.workgroup, problem.arguments)
    assert not done.findings and not sum(done.bank_conflicts.values())
    for output in problem.outputs:
        after, untouched = problem.arguments[output.argument], before[output.argument]
        found = after[output.select].astype(np.float64)
        finite = np.isfinite(output.expected)
        assert (found[~finite] == output.expected[~finite]).all(), output.argument
        error = np.abs(found[finite] - output.expected[finite])
        assert (error <= np.broadcast_to(output.tolerance, finite.shape)[finite]).all(), (output.argument, float(error.max()))
        after[output.select] = untouched[output.select]
        assert after.tobytes() == untouched.tobytes(), f"{output.argument} was written where it must not be"


def strides(draw: st.DrawFn, tensor: str, heads: int, rows: int, d: int) -> dict[str, int]:
    """Heads inside of rows or rows inside of heads, with room between both and between batches."""
    room = 8 * draw(st.integers(0, 3))
    if draw(st.booleans()):
        head, row = d + room, heads * (d + room)
    else:
        row, head = d + room, rows * (d + room)
    batch = max(head * heads, row * rows) + 8 * draw(st.integers(0, 2))
    return {f"{tensor}_stride_s": row, f"{tensor}_stride_h": head, f"{tensor}_stride_b": batch}


SIZES = ((40, 40),) * 10 + ((90, 90),) * 4 + ((200, 200),) * 2 + ((60, 700), (700, 60), (700, 700))
"""The most queries and keys of a launch: many small ones, some long in one direction, few in both, which take seconds."""


@st.composite
def shapes(draw: st.DrawFn, on: Held) -> tuple[dict[str, Any], float]:
    """A launch and the size of its logits. A query may see no key at all, by its place or by its window."""
    queries, keys = draw(st.sampled_from(SIZES))
    heads = ((1, 1, 1), (1, 1, 3), (2, 1, 2), (1, 2, 2), (3, 1, 1))
    b, hkv, group = draw(st.sampled_from(heads)) if max(queries, keys) <= 90 else (1, 1, 1)
    sq, sk = draw(st.integers(1, queries)), draw(st.integers(1, keys))
    shape: dict[str, Any] = {"b": b, "hq": hkv * group, "hkv": hkv, "sq": sq, "sk": sk}
    if draw(st.booleans()):
        shape["softmax_scale"] = draw(st.sampled_from((0.01, 0.3, 1.0)))
    if on.build.get("window"):
        shape["left"] = draw(st.one_of(st.just(-1), st.integers(0, 80)))
        shape["right"] = draw(st.one_of(st.just(-1), st.integers(0, 80))) if not on.build.get("causal") else -1
    if draw(st.booleans()):
        d = int(on.contract.parameter("d").choices[0])
        for tensor in "qkvo":
            shape |= strides(draw, tensor, hkv * group if tensor in "qo" else hkv, sq if tensor in "qo" else sk, d)
    return shape, draw(st.sampled_from((1.0, 1.0, 30.0)))


LSE, CAUSAL, MOST_WAIT_STATES, FOLDED = ("lse", True), ("causal", True), ("window", True), ("scale", "folded")
TRUNCATED: Build = (CAUSAL, LSE, ("rounding", "truncated"))
NARROW: Build = (LSE, CAUSAL, ("d", 64))
BUILDS: tuple[tuple[str, Build, int], ...] = (
    ("gfx950", (LSE,), 12), ("gfx950", (LSE, CAUSAL), 15), ("gfx950", (LSE, MOST_WAIT_STATES), 12),
    ("gfx950", (LSE, CAUSAL, FOLDED, ("dtype", "f16")), 15), ("gfx942", TRUNCATED, 12),
    ("gfx942", (LSE, CAUSAL), 8), ("gfx942", (LSE, MOST_WAIT_STATES, FOLDED, ("rescale", "eager"), ("dtype", "f16")), 7),
    ("gfx942", NARROW, 6),
)
"""A slice of `python -m tests.random_attention`: so many launches of each build."""


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(BUILDS)), ids=lambda number: "-".join((BUILDS[number][0], *(n for n, _ in BUILDS[number][1]))))
def test_drawn_launches(number: int) -> None:
    arch, build, count = BUILDS[number]
    on = held(arch, build)

    @seed(number)
    @settings(max_examples=count, derandomize=False)
    @given(shapes(on))
    def check(drawn: tuple[dict[str, Any], float]) -> None:
        right(on, *drawn)

    check()


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_every_order_of_waves(order: str) -> None:
    """And without bank conflicts."""
    right(held("gfx942", TRUNCATED, order), {"b": 1, "hq": 1, "sq": 150, "sk": 131, "o_stride_s": 136})


@pytest.mark.parametrize(("build", "most", "mask"), [(TRUNCATED, 282, 37), ((LSE, CAUSAL), 346, 37), (NARROW, 536, 69)])
def test_instructions_of_two_steps_of_gfx942(build: Build, most: int, mask: int) -> None:
    """Copies, address arithmetic and constants stand in front of the loop; a mask is a compare and a select a score and five a step."""
    plain, *masked = (names for program in held("gfx942", build).device.programs.values() for names in steady(program))
    assert sum("mfma" in name for name in plain) == 64 and len(plain) <= most
    assert len(masked) == (CAUSAL in build) and all(len(one) <= len(plain) + 2 * mask for one in masked)
    assert not {"v_mov_b32", "v_add_u32", "v_lshlrev_b32", "s_mov_b32"} & set(plain)


@pytest.mark.parametrize("arch", ["gfx950", "gfx942"])
def test_batches_and_heads_beyond_4_gib(arch: str) -> None:
    """Every tensor's second batch begins 4 GiB and its second head 8 GiB behind the first: addresses of which only these rows exist."""
    on = held(arch, {"gfx950": (LSE,), "gfx942": TRUNCATED}[arch])
    far = {f"{tensor}_stride_{name}": 128 + (8 << 28) * size for tensor in "qkvo" for name, size in (("b", 1), ("h", 1.5))}
    near = {"b": 2, "hq": 2, "sq": 3, "sk": 5}
    p = on.contract.resolve_run({**on.build, **near})
    problem = make_problem(p, 5)
    memory, arguments = on.device.memory, dict(problem.arguments)
    spread = on.contract.resolve_run({**on.build, **near, **{name: int(value) // 8 * 8 for name, value in far.items()}})
    arguments |= {name: spread[name] for name in far}
    rows: dict[str, list[tuple[int, np.ndarray[Any, Any]]]] = {}
    for tensor, count in (("q", 3), ("k", 5), ("v", 5), ("o", 3)):
        whole = np.zeros(2 * (spread[f"{tensor}_stride_b"] + spread[f"{tensor}_stride_h"]) + (1 << 20), np.uint8)
        base = arguments[tensor] = -(-whole.ctypes.data // 256) * 256
        rows[tensor] = []
        for number in range(4):
            batch, head = divmod(number, 2)
            old = batch * p[f"{tensor}_stride_b"] + head * p[f"{tensor}_stride_h"]
            new = base + 2 * (batch * spread[f"{tensor}_stride_b"] + head * spread[f"{tensor}_stride_h"])
            for row in range(count):
                place, stride = new + 2 * row * p[f"{tensor}_stride_s"], p[f"{tensor}_stride_s"]
                part = problem.arguments[tensor][old + row * stride:old + row * stride + 128]
                memory.register(place, 256, f"row {row} of {tensor}")
                memory.view(place, 256)[:] = part.view(np.uint8)
                rows[tensor].append((place, whole))
    done = on.device.launch(on.record, on.contract.grid_of(p), on.contract.workgroup, arguments)
    assert not done.findings
    found = np.stack([memory.view(place, 256).view(problem.arguments["o"].dtype) for place, _ in rows["o"]]).astype(np.float64)
    o, lse = problem.outputs
    assert (np.abs(found.reshape(2, 2, 3, 128) - o.expected) <= o.tolerance).all()
    assert (np.abs(problem.arguments["lse"] - lse.expected) <= lse.tolerance).all() and CANARY not in found
    for place, _ in (one for parts in rows.values() for one in parts):
        memory.free(place)
