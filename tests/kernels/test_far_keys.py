"""attention-forward with rows as far apart as its contract lets them lie: a workgroup's of Q and O, all of a head's of K and V."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from asmgen.author.contract.contract import ContractError, Parameter
from asmgen.author.step.iterations import StepIndex
from asmgen.author.tiles.tiles import TileError
from asmgen.codeobject.load import CodeObject
from asmgen.kernels.attention_forward.problem import reference
from asmgen.launch.emulated import EmulatedDevice
from tests.far_strides import CANARY, TYPES, FarMatrix, built, far_builder

Array = np.ndarray[Any, Any]


@pytest.mark.parametrize(("arch", "build", "keys"), [("gfx950", (("d", 64),), 130), ("gfx942", (("d", 128),), 70)])
def test_heads_that_take_four_gib(arch: str, build: tuple[tuple[str, Any], ...], keys: int) -> None:
    """The largest strides of all tensors at once: 256 rows of Q and O, and the keys with those that the contract adds, end at 4 GiB."""
    one, queries = built("attention-forward", arch, build), 256
    contract, d = one.kernel.contract, one.kernel.parameters["d"]
    far = (1 << 31) // (keys + 512) // 8 * 8
    strides = {"q": (1 << 23) - 8, "k": far, "v": far, "o": (1 << 23) - 8}
    run = {"hq": 1, "sq": queries, "sk": keys, **{f"{name}_stride_s": stride for name, stride in strides.items()}}
    p = contract.resolve_run({**one.kernel.parameters, **run})
    tensors = {name: FarMatrix(queries if name in "qo" else keys, d, stride, TYPES["bf16"]) for name, stride in strides.items()}
    rng = np.random.default_rng(3)
    for name, tensor in tensors.items():
        tensor.rows[:] = CANARY if name == "o" else rng.standard_normal(tensor.rows.shape)
    arguments = {argument.name: p.get(argument.name, 0) for argument in contract.arguments if argument.type != "pointer"}
    arguments |= {name: tensor.address for name, tensor in tensors.items()} | {"lse": np.zeros(4, np.float32)}
    before = tensors["o"].resident()
    with EmulatedDevice(arch, None, {one.kernel.resources.name: one.kernel.program}) as device:
        for name, tensor in tensors.items():
            device.memory.register(tensor.address, tensor.nbytes, name)
        result = device.launch(CodeObject.load(one.code_object).kernel(), contract.grid_of(p), contract.workgroup, arguments)
    assert not result.findings
    expected = reference(p, *(tensors[name].rows[None, None] for name in "qkv"), 2.0**-8, 2.0**-134)
    o, tolerance = expected.o[0, 0], expected.tolerance[0, 0]
    assert (np.abs(tensors["o"].rows.astype(np.float64) - o) <= tolerance + 2.0**-8 * (np.abs(o) + tolerance)).all()
    assert (tensors["o"].all[:, d:].astype(np.float64) == CANARY).all() and tensors["o"].resident() == before
    for name in ("q_stride_s", "k_stride_s", "v_stride_s", "o_stride_s"):
        with pytest.raises(ContractError, match=f"{name} must be at most"):
            contract.resolve_run({**one.kernel.parameters, **run, name: p[name] + 8})


def test_a_walk_farther_ahead_than_the_contract_has_room_for_is_refused() -> None:
    k, _ = far_builder(("m", "columns", "stride"), Parameter("stride", "run", int, ""))
    walk = k.matrix("a", "bf16", "m", "columns", "stride").walk(k.ids["y"], 64, 512)
    with pytest.raises(TileError, match="a is read 8 iterations of 64 rows ahead, and the contract keeps 512 rows after the last one"):
        walk.offset_of(k, StepIndex(None, 8))  # type: ignore[arg-type]
    last = StepIndex(None, 7)  # type: ignore[arg-type]
    assert walk.offset_of(k, last) is walk.offset_of(k, last)
