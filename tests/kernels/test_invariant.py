"""invariant=true: the same bits of an element for any m, batch, tile, schedule and layout, and what it refuses."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from asmgen.author.contract.contract import ContractError
from asmgen.codeobject.load import CodeObject
from asmgen.kernels.registry import family
from asmgen.launch.emulated import EmulatedDevice
from asmgen.tools.build import build_kernel
from asmgen.tuning.started import launch_list

M, N, K = 96, 72, 256
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("gfx950", {"tile": "32x32x64", "schedule": "interleave"}), ("gfx950", {"tile": "256x256x64", "schedule": "ping-pong"}),
    ("gfx950", {"tile": "128x128x64", "a_layout": "column", "b_layout": "column"}), ("gfx950", {"schedule": "elements"}),
    ("gfx950", {"tile": "128x256x64", "schedule": "producer-consumer"}),
    ("gfx950", {"tile": "64x64x64", "d_layout": "column", "c_layout": "column"}),
    ("gfx942", {"tile": "128x128x64"}), ("gfx942", {"schedule": "elements", "a_layout": "column"}),
]


def bits(device: EmulatedDevice, arch: str, build: dict[str, Any], a: Any, b: Any, rows: int, batch: int) -> np.ndarray[Any, Any]:
    """D of the first rows of A, in the last matrix of a batch of equal ones."""
    library = family("gemm-bf16")
    one = build_kernel(library, arch, {**build, "invariant": True, "out": "f32", "bias": "row"})
    contract = one.kernel.contract
    values = contract.resolve_run({**one.kernel.parameters, "m": rows, "n": N, "k": K, "batch": batch, "a_stride_batch": 0,
                                   "b_stride_batch": 0, "alpha": 1.25})
    given = a[:rows], b
    stored = [np.ascontiguousarray(matrix.T if values[f"{name}_layout"] == "column" else matrix)
              for name, matrix in zip("ab", given, strict=True)]
    d = np.zeros((batch, N, rows) if values["d_layout"] == "column" else (batch, rows, N), np.float32)
    bias = np.linspace(-3, 3, N).astype(np.float32)
    numbers = {argument.name: values[argument.name] for argument in contract.given if argument.type != "pointer"}
    launch_list(CodeObject.load(one.code_object), contract, values).start(
        device, {**numbers, "a": stored[0], "b": stored[1], "d": d, "c": d, "bias": bias}, None)
    return d[-1].T if values["d_layout"] == "column" else d[-1]


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["gfx950", "gfx942"])
def test_bits_depend_on_neither_m_nor_tile_nor_layout(arch: str) -> None:
    random = np.random.default_rng(5)
    a, b = (random.standard_normal((count, K)).astype(ml_dtypes.bfloat16) for count in (M, N))
    found = []
    with EmulatedDevice(arch) as device:
        for number, (target, build) in enumerate(VARIANTS):
            if target == arch:
                found.append(bits(device, arch, build, a, b, M if number % 2 else 40, 1 + number % 2)[:40])
    assert all((one.view(np.uint32) == found[0].view(np.uint32)).all() for one in found[1:]) and np.abs(found[0]).max() > 1


@pytest.mark.parametrize("build", [{"split_k": 2}, {"schedule": "in-order"}])
def test_what_adds_in_another_order_is_refused(build: dict[str, Any]) -> None:
    with pytest.raises(ContractError, match="invariant=true needs split_k=1"):
        family("gemm-bf16").contract("gfx950", {"invariant": True, **build}).resolve_build({"invariant": True, **build})
