"""Launches of attention-backward whose rows lie as far apart as its contract allows, against the same rows side by side: of memory between
them only pages that are touched exist. Eight elements more must be refused.

    python -m tests.far_attention [NUMBER ...]      # these builds, or all
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from asmgen.author.contract.contract import ContractError, KernelContract
from asmgen.author.contract.problem import Problem
from asmgen.codeobject.load import CodeObject
from asmgen.kernels.registry import family
from asmgen.launch.emulated import EmulatedDevice
from asmgen.tools.running.build import Built, build_kernel
from asmgen.tuning.started import launch_list, upload, values_of
from tests.far_strides import FarMatrix

BUILDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("gfx950", {}), ("gfx950", {"dropout": True}), ("gfx950", {"d": 64}), ("gfx950", {"d": 64, "dropout": True}),
    ("gfx950", {"dq": "ordered"}), ("gfx950", {"d": 64, "dq": "ordered"}), ("gfx942", {}), ("gfx942", {"d": 64, "dq": "ordered"}))
TENSORS = ("q", "k", "v", "o", "do", "dq", "dk", "dv")
_SHAPE = {"b": 1, "hq": 1, "sq": 70, "sk": 200}
_CANARY = -123.0
_STEP = 8  # strides are multiples
Arrays = dict[str, np.ndarray[Any, Any]]


def launched(built: Built, arch: str, near: Mapping[str, Any], far: Mapping[str, Any]) -> Arrays:
    """All kernels on the rows of `near`, moved as far apart as `far` says. The gradients."""
    contract, problem = built.kernel.contract, family("attention-backward").problem(near, 3)
    arguments = {**problem.arguments, **{name: value for name, value in far.items() if name.endswith("_stride_s")}}
    moved: dict[str, FarMatrix] = {}
    with EmulatedDevice(arch) as device:
        for name in TENSORS:
            value = problem.arguments[name].reshape(-1, far["d"])
            made = moved[name] = FarMatrix(*value.shape, far[f"{name}_stride_s"], value.dtype, _CANARY)
            made.rows[:] = value
            device.memory.register(made.address, made.nbytes, name)
            arguments[name] = made.address
        before = {name: made.resident() for name, made in moved.items()}
        given = {argument.name for argument in contract.given}
        sent = Problem({name: value for name, value in arguments.items() if name in given}, ())
        buffers = upload(device, contract, sent, far)
        launch_list(CodeObject.load(built.code_object), contract, far).start(device, values_of(contract, sent, buffers))
        for name, made in moved.items():
            device.memory.free(made.address)
            assert made.resident() == before[name], f"bytes between the rows of {name} were touched"
            assert (made.all[:, made.rows.shape[1]:].astype(float) == _CANARY).all(), f"elements behind the rows of {name} were changed"
    return {name: moved[name].rows.astype(np.float64) for name in ("dq", "dk", "dv")}


def largest(contract: KernelContract, given: Mapping[str, Any], name: str) -> int:
    """The largest row stride of a tensor that the contract takes."""
    def taken(stride: int) -> bool:
        try:
            contract.resolve_run({**given, name: stride})
        except ContractError:
            return False
        return True

    low, high = 16, 1 << 24
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if taken(middle * _STEP) else (low, middle)
    return low * _STEP


def faults(arch: str, build: Mapping[str, Any]) -> list[str]:
    """What is wrong with launches of a build at the largest strides: they must give what rows side by side give, bit by bit."""
    built = build_kernel(family("attention-backward"), arch, build)
    contract = built.kernel.contract
    given = {**built.kernel.parameters, **_SHAPE}
    near = contract.resolve_run(given)
    strides = {f"{name}_stride_s": largest(contract, given, f"{name}_stride_s") for name in TENSORS}
    far = contract.resolve_run({**given, **strides})
    expected, found = launched(built, arch, near, near), launched(built, arch, near, far)
    print(f"{arch} {build}: {strides}", flush=True)
    return [f"{arch} {build}: {name} differs in {int((found[name] != value).sum())} elements" for name, value in expected.items()
            if not np.array_equal(found[name], value, equal_nan=True)]


def main() -> int:
    """Exit status 1 where a launch is wrong."""
    chosen = [int(number) for number in sys.argv[1:]] or range(len(BUILDS))
    wrong = [fault for number in chosen for fault in faults(*BUILDS[number])]
    print("\n".join(wrong or [f"{len(chosen)} builds at both sides of their strides, 0 wrong"]))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
