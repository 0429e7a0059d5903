"""Products split along K: right on drawn shapes, the same bits in any order, nothing read that nobody wrote, parts beyond 4 GiB."""

from __future__ import annotations

import json
import math
import struct
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asmgen.author.contract.contract import ContractError
from asmgen.codeobject.load import CodeObject
from asmgen.emulator.scheduling.run import Options
from asmgen.kernels import gemm
from asmgen.kernels import productplan as products
from asmgen.kernels.products.split import MOST_PARTS, reciprocal
from asmgen.kernels.registry import family
from asmgen.launch.device import Buffer, DeviceError
from asmgen.launch.emulated import EmulatedDevice
from asmgen.launch.hip import HipDevice
from asmgen.program.program import Instruction
from asmgen.tools.list_command import kernel_text
from asmgen.tools.mutate import on_emulator, score
from asmgen.tools.proofs.addressrun import run_addresses
from asmgen.tools.proofs.algebrarun import run_algebra
from asmgen.tools.proofs.hashrun import run_hashes
from asmgen.tools.reach import reach
from asmgen.tools.running.build import Built, build_kernel, lint_errors, write_built
from asmgen.tools.running.runner import RunReport, run_kernel
from asmgen.tuning.started import launch_list
from tests.far_strides import FarMatrix
from tests.launch.test_hip_device import FakeHip
from tests.tools.test_cli import call

LIBRARY = family("gemm-bf16")
SMALL = {"tile": "64x64x64"}
BUILDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("gfx950", SMALL | {"split_k": 2}),
    ("gfx950", SMALL | {"split_k": 5, "bias": "row", "out": "f16", "dtype": "f16", "preload": True}),
    ("gfx950", SMALL | {"split_k": 7, "out": "f32"}),
    ("gfx950", {"tile": "128x256x64", "schedule": "ping-pong", "split_k": 3}),
    ("gfx950", {"tile": "128x256x64", "schedule": "producer-consumer", "split_k": 2}),
    ("gfx942", {"split_k": 4, "bias": "row"}),
    ("gfx942", {"split_k": 3, "tile": "256x256x64", "schedule": "ping-pong", "window": 2, "chunk": 2}),
)


@cache
def built(number: int) -> Built:
    arch, build = BUILDS[number]
    return build_kernel(LIBRARY, arch, build)


def run(one: Built, shape: dict[str, Any], order: str = "lockstep", seed: int = 0) -> RunReport:
    parameters = one.kernel.contract.resolve_run({**one.kernel.parameters, **shape})
    return run_kernel(LIBRARY, one, parameters, "emulator", seed, Options(order=order, count_banks=True), program=one.kernel.program)


@given(number=st.integers(0, len(BUILDS) - 1), m=st.integers(1, 140), n=st.integers(1, 270), steps=st.integers(1, 9),
       apart=st.sampled_from((0, 0, 8)), alpha=st.sampled_from((1.0, 1.0, -0.5)), beta=st.sampled_from((0.0, 0.0, 2.0)),
       seed=st.integers(0, 99))
@settings(max_examples=14, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@pytest.mark.slow
def test_right_on_drawn_shapes(number: int, m: int, n: int, steps: int, apart: int, alpha: float, beta: float, seed: int) -> None:
    """With fewer steps than workgroups share, and with parts of unequal length; NaN and infinities by even seeds."""
    k = 64 * steps
    report = run(built(number), {"m": m, "n": n, "k": k, "lda": k + apart, "ldb": k + apart, "ldd": n + apart, "ldc": n + apart,
                                 "alpha": alpha, "beta": beta}, seed=seed)
    assert report.passed and report.findings == () and report.bank_conflicts == 0, report


@pytest.mark.parametrize(("number", "shape"), [(0, {"m": 65, "n": 70, "k": 192}), (5, {"m": 20, "n": 130, "k": 448, "beta": 0.5})])
@pytest.mark.slow
def test_the_same_bits_in_each_order_of_waves(number: int, shape: dict[str, Any]) -> None:
    reports = [run(built(number), shape, order) for order in ("lockstep", "serial", "random:3")]
    assert all(report.passed and not report.findings for report in reports)
    assert len({report.digest for report in reports}) == 1


@pytest.mark.parametrize(("steps", "parts"), [(1, 1), (4, 4), (5, 5), (6, 3), (11, 4)])
def test_parts_have_as_few_steps_as_possible_and_none_is_summed_that_has_none(steps: int, parts: int) -> None:
    """Typed by hand for five workgroups: ceil(steps / 5) each, so that 6 steps are three parts of 2, and 11 are 3, 3, 3 and 2."""
    one = built(1)
    report = run(one, {"m": 3, "n": 5, "k": 64 * steps}, seed=1)
    assert report.passed and not report.findings
    stores = [position for position, item in enumerate(one.kernel.program.instructions) if item.name.startswith("buffer_store")]
    assert report.launches[0].result.counts[stores[0]] == 4 * parts


def test_a_sum_of_parts_that_nobody_made_is_found() -> None:
    """Without its condition the second kernel would read the panels of workgroups that have no steps."""
    one = built(0)
    (adds,) = one.kernel.after
    blind = adds.program.with_items(item for item in adds.program.items
                                    if not (isinstance(item, Instruction) and item.name == "s_cselect_b32" and item.operands[2] == 0))
    assert len(blind.items) < len(adds.program.items)
    shape = one.kernel.contract.resolve_run({**one.kernel.parameters, "m": 5, "n": 64, "k": 64})
    assert run_kernel(LIBRARY, one, shape, "emulator", 1, program=adds.program).passed
    report = run_kernel(LIBRARY, one, shape, "emulator", 1, program=blind)
    assert any("nobody wrote" in finding.message for finding in report.findings) and not report.passed


@pytest.mark.slow
def test_waits_of_both_kernels_are_needed_and_all_code_is_reached() -> None:
    one = built(0)
    assert not lint_errors(one)
    for kernel in one.kernel.launches:
        found = score(kernel.name, kernel.program, on_emulator(LIBRARY, one, kernel))
        assert found.total["wait"] > 5 and found.survivors == ()
    assert [(found.executed.missing, found.wrong) for found in reach(LIBRARY, one)] == [((), ()), ((), ())]


def test_nothing_around_workspace_and_output_changes() -> None:
    """The workspace lies between canaries of a larger buffer's end and the guard space in front, which no access may touch."""
    one = built(0)
    p = one.kernel.contract.resolve_run({**one.kernel.parameters, "m": 33, "n": 65, "k": 128, "ldd": 72})
    needed = one.kernel.contract.workspace_bytes_of(p)["parts"]
    assert needed == 4 * 2 * 33 * 128  # two parts of 33 rows, two tiles of 64 columns
    problem = LIBRARY.problem(p, 1)
    values = {argument.name: problem.arguments[argument.name] for argument in one.kernel.contract.given}
    parts = np.full(needed + 4096, 0x5A, np.uint8)
    with EmulatedDevice("gfx950") as device:
        launches = launch_list(CodeObject.load(one.code_object), one.kernel.contract, p)
        for result in launches.start(device, values | {"parts": parts}):
            assert result.findings == ()
        assert (parts[needed:] == 0x5A).all() and not (parts[:needed] == 0x5A).all()
        (output,) = problem.outputs
        assert (np.abs(values["d"].astype(float)[output.select] - output.expected) <= output.tolerance).all()
        assert (values["d"][:, 65:].astype(float) == -123.0).all()
        with pytest.raises(DeviceError, match=f"workspace parts has {needed - 1} bytes, and these launches need {needed}"):
            launches.start(device, values | {"parts": parts[:needed - 1]})


def test_steps_are_divided_exactly() -> None:
    """At each multiple and one below it, up to 2^26 = 2^32 / 64: more steps than the largest k of any variant has."""
    for by in range(1, MOST_PARTS + 1):
        multiples = np.unique(np.geomspace(1, (1 << 26) // by, 400).astype(np.uint64)) * np.uint64(by)
        for numbers in (multiples, multiples - np.uint64(1)):
            np.testing.assert_array_equal(numbers * np.uint64(reciprocal(by)) >> np.uint64(32), numbers // np.uint64(by))
    most = [LIBRARY.contract_of(variant).parameter("k").maximum or 0 for variant in LIBRARY.variants()]
    assert max(most) / 64 + MOST_PARTS < 1 << 26


@pytest.mark.slow
def test_as_many_parts_as_registers_hold() -> None:
    """60 parts of 4 registers; their first two steps alone are enough to add."""
    most = build_kernel(LIBRARY, "gfx950", SMALL | {"split_k": 60})
    assert run(most, {"m": 2, "n": 9, "k": 128}).passed
    with pytest.raises(ContractError, match="split_k must be at most 60, got 61; 60 would work"):
        LIBRARY.build("gfx950", SMALL | {"split_k": 61})


@pytest.mark.parametrize("m", [(1 << 24) - 1, (1 << 24) + 1])
def test_panels_beyond_4_gib(m: int) -> None:
    """Panels of 64 columns have 4 GiB at 2^24 rows: the second part begins just below and just beyond. The first tile alone is computed,
    in memory of which only touched pages exist."""
    one = built(0)
    p = one.kernel.contract.resolve_run({**one.kernel.parameters, "m": m, "n": 64, "k": 128})
    random = np.random.default_rng(1)
    a, b = (random.integers(-3, 4, (64, 128)).astype(ml_dtypes.bfloat16) for _ in range(2))
    parts, d = FarMatrix(2 * m, 64, 64, np.float32), FarMatrix(m, 64, 64, ml_dtypes.bfloat16)
    values = {argument.name: p.get(argument.name) for argument in one.kernel.contract.given} | {"a": a, "b": b, "c": d.address,
                                                                                               "bias": d.address, "d": d.address}
    code = CodeObject.load(one.code_object)
    product, adds = launch_list(code, one.kernel.contract, p).steps
    rows = 64 // 16  # the second kernel's workgroups of 16 rows that the first tile has
    with EmulatedDevice("gfx950") as device:
        for name, held in (("parts", parts), ("d", d)):
            device.memory.register(held.address, held.nbytes, name)
        for step, grid in ((product, (1, 1, 2)), (adds, (rows, 1, 1))):
            given_values = [values[name] if name != "parts" else parts.address for name in step.arguments]
            assert step.kernel.launch(device, grid, step.block, given_values).findings == ()
        for held in (parts, d):
            device.memory.free(held.address)
    np.testing.assert_array_equal(d.rows[:64].astype(float), (a.astype(float) @ b.astype(float).T).astype(ml_dtypes.bfloat16).astype(float))
    np.testing.assert_array_equal(parts.rows[m:m + 64].astype(float), a[:, 64:].astype(float) @ b[:, 64:].astype(float).T)
    assert not parts.rows[64:128].any() and not d.rows[64:128].astype(float).any()


@pytest.mark.parametrize(("number", "off"), [(2, 0), (5, 3)])
def test_rows_of_d_and_c_as_far_apart_as_the_contract_allows(number: int, off: int) -> None:
    """The second kernel shows few rows by a descriptor, so that 32 bits reach wherever the limit of the variant's tile lies."""
    one = built(number)
    most = int(one.kernel.contract.parameter("ldd").maximum or 0)
    p = one.kernel.contract.resolve_run({**one.kernel.parameters, "m": 5, "n": 70, "k": 192, "ldd": most - off, "ldc": most, "beta": 2.0})
    out = np.float32 if p["out"] == "f32" else ml_dtypes.bfloat16
    random = np.random.default_rng(4)
    a, b = (random.integers(-3, 4, (rows, 192)).astype(ml_dtypes.bfloat16) for rows in (5, 70))
    c, d, bias = FarMatrix(5, 70, most, out), FarMatrix(5, 70, most - off, out), random.integers(-9, 9, 70).astype(out)
    c.rows[:] = random.integers(-9, 9, (5, 70))
    values = {name: p.get(name) for name in (argument.name for argument in one.kernel.contract.given)}
    with EmulatedDevice(one.kernel.resources.arch) as device:
        for name, far in (("c", c), ("d", d)):
            device.memory.register(far.address, far.nbytes, name)
        addresses = {"a": a, "b": b, "c": c.address, "d": d.address, "bias": bias}
        launches = launch_list(CodeObject.load(one.code_object), one.kernel.contract, p)
        assert not any(result.findings for result in launches.start(device, values | addresses))
        for far in (c, d):
            device.memory.free(far.address)
    expected = a.astype(float) @ b.astype(float).T + 2 * c.rows.astype(float) + (bias.astype(float) if p["bias"] == "row" else 0)
    np.testing.assert_array_equal(d.rows.astype(float), expected.astype(out).astype(float))
    with pytest.raises(ContractError, match=f"ldd must be at most {most}"):
        one.kernel.contract.resolve_run({"m": 5, "n": 70, "k": 192, "ldd": most + 1})


@pytest.mark.slow
def test_a_product_of_tensors_may_be_split(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two launches on a stream of a GPU, with C and the bias in D's place as neither is read; on the emulator the product itself."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(products, "choose", lambda name, arch, gpu, given: SMALL | {"split_k": 2})
    products.product_plan.cache_clear()
    random = np.random.default_rng(2)
    a, b = (random.integers(-3, 4, (rows, 192)).astype(ml_dtypes.bfloat16) for rows in (20, 33))
    with EmulatedDevice("gfx950") as device:
        for _ in range(2):  # the second time with the code object of the cache folder
            d = gemm.bf16(a, b, device=device)
            products.product_plan.cache_clear()
        assert len(device.launches) == 4 and not any(result.findings for result in device.launches)
    np.testing.assert_array_equal(d.astype(float), (a.astype(float) @ b.astype(float).T).astype(ml_dtypes.bfloat16).astype(float))
    assert len(list(tmp_path.rglob("*.co"))) == 1
    fake = FakeHip()
    fake.image_size = len(next(tmp_path.rglob("*.co")).read_bytes())
    with HipDevice("gfx950", fake) as card:
        buffers = [card.upload(array) for array in (a, b, d)]
        gemm.bf16(*(Tensor(buffer, array) for buffer, array in zip(buffers, (a, b, d), strict=True)), device=card, stream=9)
    products.product_plan.cache_clear()
    assert [launch.stream for launch in fake.launches] == [9, 9] and [launch.grid for launch in fake.launches] == [(1, 1, 2), (2, 1, 1)]
    pointers = [int.from_bytes(launch.kernarg[at:at + 8], "little") for launch, at in zip(fake.launches, (16, 0), strict=True)]
    assert pointers[0] == pointers[1] != 0, "the workspace"


def test_the_json_says_all_that_launching_by_hand_needs(tmp_path: Path) -> None:
    """Order, grid, block, arguments by offset and type, bytes of the workspace: nothing else of asmgen is asked."""
    one = built(1)
    _, code, described = write_built(one, tmp_path)
    document = json.loads(described.read_text())
    random, sizes = np.random.default_rng(3), {"m": 21, "n": 70, "k": 64 * 7}
    a, b = (random.integers(-3, 4, (sizes[name], sizes["k"])).astype(np.float16) for name in "mn")
    bias, d = random.integers(-9, 9, 70).astype(np.float16), np.full((21, 72), -9, np.float16)
    known = {**document["build"], **sizes, "ceil": math.ceil, "lda": 448, "ldb": 448, "ldd": 72, "ldc": 72, "alpha": 2.0, "beta": 0.0,
             "batch": 1, **{f"{name}_stride_batch": 0 for name in "abdc"}}
    device, image = EmulatedDevice("gfx950"), CodeObject.load(code)
    pointers = {name: device.upload(array) for name, array in {"a": a, "b": b, "d": d, "c": d, "bias": bias}.items()}
    for workspace in document["workspaces"]:
        assert not workspace["zeroed"]
        pointers[workspace["name"]] = device.allocate(eval(workspace["bytes"]["sentence"], {}, known))
    for launch in document["launches"]:
        kernel, kernarg = image.kernel(launch["symbol"]), bytearray()
        for row in launch["arguments"]:
            form = {"pointer": "<Q", "u32": "<I", "u64": "<Q", "f32": "<f"}[row["type"]]
            value = pointers[row["name"]].address if row["type"] == "pointer" else known[row["name"]]
            kernarg = kernarg.ljust(row["offset"], b"\0") + struct.pack(form, value)
        grid = eval(launch["grid"]["sentence"].partition(":")[0], {}, known)
        assert not device.launch(device.load(image).kernel(kernel.name), grid, tuple(launch["workgroup"]), bytes(kernarg)).findings
    expected = 2.0 * (a.astype(float) @ b.astype(float).T) + bias.astype(float)
    found = device.read(pointers["d"], np.float16, (21, 72))
    np.testing.assert_array_equal(found[:, :70], expected.astype(np.float16))
    assert (found[:, 70:] == -9).all()


@pytest.mark.slow
def test_second_values_go_through_the_workspace() -> None:
    """The product is exact in residues, and the same expressions are computed in another order of waves, from other numbers."""
    one = built(0)
    p = one.kernel.contract.resolve_run({**one.kernel.parameters, "m": 18, "n": 70, "k": 192})
    assert run_algebra(LIBRARY, one, p).equal
    assert run_hashes(LIBRARY, one, p, 1).equal(run_hashes(LIBRARY, one, p, 3, "random:4"))
    assert run_addresses(LIBRARY, one, p).sequences


@pytest.mark.slow
def test_show_list_and_layout_know_both_kernels(capsys: pytest.CaptureFixture[str]) -> None:
    build = ("-p", "tile=64x64x64", "-p", "split_k=2")
    shown = call(capsys, "show", "gemm-bf16", *build)[1]
    assert "_sum: D = alpha (sum of the parts) + beta C + bias" in shown and "panel_buffer" in shown and "As" in shown
    steps = json.loads(call(capsys, "show", "gemm-bf16", *build, "--json")[1])
    assert [len(launch["steps"]) for launch in steps["launches"]] == [1, 0] and len(steps["steps"]) == 1
    assert "S[1]" in call(capsys, "layout", "gemm-bf16:S[1]", *build, "--lane", "3")[1]
    row = LIBRARY.contract("gfx950", {"split_k": 2}).describe() | {"arch": "gfx950", "variants": []}
    assert "then D = alpha (sum of the parts) + beta C + bias (ceil(m / " in " ".join(kernel_text([row]).split())


class Tensor:
    """What a tensor of PyTorch on a GPU shows."""

    dtype = "torch.bfloat16"
    device = SimpleNamespace(type="cuda", index=1)

    def __init__(self, buffer: Buffer, array: np.ndarray[Any, Any]) -> None:
        self.shape, self._buffer, self._strides = array.shape, buffer, tuple(stride // 2 for stride in array.strides)

    def data_ptr(self) -> int:
        return self._buffer.address

    def stride(self) -> tuple[int, ...]:
        return self._strides

    def element_size(self) -> int:
        return 2
