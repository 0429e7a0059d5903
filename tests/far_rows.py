"""Launches of row kernels whose rows lie up to 4 GiB apart, against the same rows side by side: of memory between them only pages that
are touched exist.

    python -m tests.far_rows [FAMILY ...]      # each number of lanes on both sides of each stride at which 32 bits of bytes end
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from asmgen.author.contract.contract import ContractError
from asmgen.author.contract.problem import Problem
from asmgen.author.contract.variant import Variant
from asmgen.codeobject.load import CodeObject
from asmgen.isa.errors import AsmgenError
from asmgen.kernels.registry import family
from asmgen.kernels.rows.rowshape import shape_of
from asmgen.launch.emulated import EmulatedDevice
from asmgen.tools.running.build import Built, build_kernel
from asmgen.tuning.started import launch_list, upload, values_of
from tests.far_strides import FarMatrix

BUILDS: dict[str, Sequence[dict[str, Any]]] = {
    "norm": ({"residual": True, "dropout": True, "bias": True, "save": "mask"}, {"dtype": "f32", "out": "f32", "kind": "rms"},
             {"access": "element"}, {"out": "fp8"}),
    "norm-backward": ({"residual": True, "dropout": True, "dresidual": True}, {"dtype": "f32", "kind": "rms"}),
    "softmax": ({}, {"dtype": "f32", "out": "f32", "log": True}, {"backward": True}, {"access": "element"}),
    "activation": ({"gated": True}, {"gated": True, "backward": True, "dtype": "f32"}),
    "quantize": ({}, {"from": "f32", "to": "int8"}, {"group": "128"}, {"to": "mxfp4", "layout": "shuffled"}, {"to": "mxfp8"}),
}
"""Build parameters of each family, without columns and lanes."""
_COLUMNS = 72
_CANARY = 77
_EACH = 2
"""Groups of rows of the first workgroup; the second one has one row."""
Arrays = dict[str, np.ndarray[Any, Any]]


def launched(of: str, built: Built, arch: str, near: Mapping[str, Any], far: Mapping[str, Any]) -> Arrays:
    """All kernels on the rows of `near`, moved as far apart as `far` says. The arrays afterwards, as the problem has them."""
    contract, problem = built.kernel.contract, family(of).problem(near, 3)
    arguments = {**problem.arguments, **{name: value for name, value in far.items() if name.endswith("_stride")}}
    given, moved = {argument.name for argument in contract.given}, {}
    with EmulatedDevice(arch) as device:
        for name, value in problem.arguments.items():
            if name in given and isinstance(value, np.ndarray) and far.get(f"{name}_stride") != near.get(f"{name}_stride"):
                made = moved[name] = FarMatrix(*value.shape, far[f"{name}_stride"], value.dtype, _CANARY)
                made.rows[:] = value
                device.memory.register(made.address, made.nbytes, name)
                arguments[name] = made.address
        before = {name: made.resident() for name, made in moved.items()}
        sent = Problem({name: value for name, value in arguments.items() if name in given}, ())
        buffers = upload(device, contract, sent, far)
        launch_list(CodeObject.load(built.code_object), contract, far).start(device, values_of(contract, sent, buffers))
        found = {name: device.read(buffers[name], value.dtype, value.shape) for name, value in sent.arguments.items()
                 if isinstance(value, np.ndarray)}
        for name, made in moved.items():
            device.memory.free(made.address)
            assert made.resident() == before[name], f"bytes between the rows of {name} were written"
            assert (made.all[:, made.rows.shape[1]:] == _CANARY).all(), f"elements behind the rows of {name} were changed"
            found[name] = made.rows.copy()
    return found


def faults(of: str, arch: str, build: Mapping[str, Any], strides: Sequence[Mapping[str, int]]) -> list[str]:
    """What is wrong with launches with those strides: each must give what rows side by side give, bit by bit."""
    built = build_kernel(family(of), arch, {"columns": _COLUMNS, **build})
    group = shape_of(family(of).select(arch, built.kernel.parameters), _COLUMNS).rows
    given = {**built.kernel.parameters, "rows": _EACH * group + 1, "each": _EACH}
    near = built.kernel.contract.resolve_run(given)
    expected, wrong = launched(of, built, arch, near, near), []
    for more in strides:
        try:
            found = launched(of, built, arch, near, built.kernel.contract.resolve_run({**given, **more}))
            wrong += [f"{more}: {name} is not what rows side by side give" for name, values in expected.items()
                      if values.tobytes() != found[name].tobytes()]
        except (AssertionError, AsmgenError) as error:
            wrong.append(f"{more}: {' '.join(str(error).split())[:200]}")
    return wrong


def sides(of: str, variant: Variant, build: Mapping[str, Any]) -> list[dict[str, int]]:
    """Strides of the tensors of rows on both sides of those at which a row takes 2^31 or 2^32 bytes, or a group of rows 2^32, and the
    largest ones; those of whole dwords. All tensors have another one of their strides at a time."""
    contract = family(of).contract_of(variant, {"columns": _COLUMNS, **build})
    rows, lists = shape_of(variant, _COLUMNS).rows, {}
    for one in contract.parameters:
        if one.name.endswith("_stride") and one.name not in ("scale_stride", "d_t_stride", "scale_t_stride"):
            most = int(one.maximum or 0)
            limits = {(1 << bits) // (count * size) for bits, count in ((31, 1), (32, 1), (32, rows)) for size in (2, 4)}
            lists[one.name] = sorted({stride // 4 * 4 for limit in (*limits, most) for stride in (limit - 4, limit) if stride <= most})
    return [{name: values[(number + at) % len(values)] for at, (name, values) in enumerate(lists.items())}
            for number in range(max(map(len, lists.values())))]


def sweep(of: str, arch: str) -> int:
    """Launch each build of a family with each number of lanes at all sides. Returns how many launches failed."""
    failed = count = 0
    for variant in family(of).variants(arch):
        for build in BUILDS[of]:
            own = {**build, **family(of).fixed(variant)}
            try:
                strides = sides(of, variant, own)
                found = faults(of, arch, own, strides)
            except ContractError:  # not offered with that many lanes
                continue
            failed, count = failed + len(found), count + len(strides)
            for one in found:
                print(f"{of} {arch} {own} {one}", flush=True)
    print(f"{of} {arch}: {count} launches, {failed} failed", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(min(1, sum(sweep(of, arch) for of in sys.argv[1:] or BUILDS for arch in ("gfx950", "gfx942"))))
