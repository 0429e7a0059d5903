"""gemm.matmul: types, layouts by strides, batches that broadcast, bias, C and scales, and what it refuses."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from asmgen.kernels import gemm, productplan
from asmgen.kernels import matmul as module
from asmgen.kernels.registry import family
from asmgen.kernels.tensors import has_own_elements
from asmgen.launch.emulated import EmulatedDevice
from tests.far_products import FarLines
from tests.launch.test_launch_values import TorchTensor

BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn


def first(kernel: str, arch: str, gpu: str, given: dict[str, Any]) -> dict[str, Any]:
    """The family's own choice: nothing is timed."""
    contract = family(kernel).contract(arch, given)
    return contract.resolve_build({name: value for name, value in given.items() if contract.parameter(name).kind == "build"})


@pytest.fixture(autouse=True)
def untimed(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(productplan, "choose", first)
    productplan.product_plan.cache_clear()
    yield
    productplan.product_plan.cache_clear()


def drawn(seed: int, shape: tuple[int, ...], dtype: Any = BF16) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def close(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> bool:
    return bool((np.abs(found.astype(np.float64) - expected) <= np.abs(expected) * 2.0**-7 + 2e-3).all())


CASES: list[tuple[Any, Any, dict[str, Any]]] = [
    (drawn(1, (40, 64)), drawn(2, (24, 64)).T, {}),
    (drawn(3, (2, 33, 50)), drawn(4, (50, 17)), {"bias": drawn(5, (17,)), "beta": np.array(0.5), "c": drawn(11, (33, 17))}),
    (drawn(6, (2, 1, 9, 64), np.float16), drawn(7, (3, 64, 40), np.float16), {}),
    (drawn(8, (30, 128), E4M3), drawn(9, (128, 48), E4M3), {"alpha": 0.5, "beta": 2.0, "c": drawn(10, (30, 48))}),
]


@pytest.mark.slow
def test_lists_of_arrays() -> None:
    """One b for all, scales of the rows of all and of the columns of each; other lengths are refused, and a c that is none."""
    some, b = [drawn(seed, (20, 128), E4M3) for seed in (1, 2)], drawn(3, (128, 24), E4M3)
    of_a, of_b = np.abs(drawn(4, (20, 1), np.float32)), np.abs(drawn(5, (2, 24), np.float32))
    with EmulatedDevice("gfx950") as device:
        found = gemm.matmul(some, b, a_scale=of_a, b_scale=of_b, device=device)
        for a, one, column in zip(some, found, of_b, strict=True):
            assert close(one, a.astype(np.float64) * of_a @ (b.astype(np.float64) * column))
        assert gemm.matmul([], b, device=device) == []
        one, other = drawn(6, (9, 64)), drawn(7, (17, 64))
        (found_one,) = gemm.bf16(one, [other], device=device)
        assert close(found_one, one.astype(np.float64) @ other.astype(np.float64).T)
        for more, sentence in ({"out": found[:1]}, "out of gemm.matmul has 1 matrices, and another list 2"), \
                ({"out": found[0]}, "must be a list of 2"), ({"bias": [1]}, "bias of gemm.matmul is the same for all"):
            with pytest.raises(gemm.TensorError, match=sentence):
                gemm.matmul(some, b, device=device, **more)


@pytest.mark.parametrize("number", range(len(CASES)))
@pytest.mark.slow_after_first
def test_products_of_arrays(number: int) -> None:
    a, b, more = CASES[number]
    with EmulatedDevice("gfx950") as device:
        found = gemm.matmul(a, b, device=device, **more)
        assert all(launch.findings == () for launch in device.launches)
    expected = more.get("alpha", 1.0) * (a.astype(np.float64) @ b.astype(np.float64))
    for name, factor in (("bias", 1.0), ("c", more.get("beta", 0.0))):
        if name in more:
            expected = expected + factor * more[name].astype(np.float64)
    assert found.dtype == (BF16 if a.dtype == E4M3 else a.dtype) and close(found, expected)


def test_tensors_are_used_where_they_are_with_their_strides() -> None:
    a, b, out = drawn(1, (64, 64)), drawn(2, (64, 40)), np.zeros((40, 64), BF16)
    with EmulatedDevice("gfx950") as device:
        made = gemm.matmul(TorchTensor(a.T), TorchTensor(b), TorchTensor(out.T), device=device)
        assert made.array.base is out and close(made.array, a.T.astype(np.float64) @ b.astype(np.float64))


@pytest.mark.slow
def test_scales_of_rows_and_columns_and_of_blocks() -> None:
    a, b = drawn(1, (40, 256), E4M3), drawn(2, (130, 256), E4M3)
    wide = a.astype(np.float64), b.astype(np.float64)
    rows, columns = (np.random.default_rng(seed).uniform(0.5, 2, size).astype(np.float32) for seed, size in ((3, 40), (4, 130)))
    blocks, squares = (np.random.default_rng(seed).uniform(0.5, 2, size).astype(np.float32) for seed, size in ((5, (40, 2)), (6, (2, 2))))
    with EmulatedDevice("gfx950") as device:
        by_rows = gemm.matmul(a, TorchTensor(b.T), np.empty((40, 130), BF16), a_scale=rows, b_scale=columns, device=device)
        by_blocks = gemm.matmul(a, TorchTensor(b.T), np.empty((40, 130), BF16), a_scale=blocks, b_scale=squares, device=device)
        mixed = gemm.matmul(np.stack([a, a[::-1]]), TorchTensor(b.T), np.empty((2, 40, 130), BF16), a_scale=np.float32([[2], [0.5]]),
                            b_scale=TorchTensor(columns), device=device)
    assert close(by_rows, (wide[0] * rows[:, None]) @ (wide[1] * columns[:, None]).T)
    assert close(mixed[1], 0.5 * wide[0][::-1] @ (wide[1] * columns[:, None]).T)
    of_a, of_b = blocks.repeat(128, 1), squares.repeat(128, 0)[:130].repeat(128, 1)
    assert close(by_blocks, (wide[0] * of_a) @ (wide[1] * of_b).T)


@pytest.mark.parametrize(("change", "sentence"), [
    ({"b": drawn(2, (63, 24))}, "b of gemm.matmul must have K = 64 rows"), ({"a": drawn(1, (64,))}, "a of gemm.matmul must be a matrix"),
    ({"out": np.empty((8, 9), BF16)}, r"out of gemm.matmul must be \[8, 24\]"), ({"beta": 1.0}, "c of gemm.matmul must be given"),
    ({"b": drawn(2, (64, 24), np.float16)}, "both bfloat16"), ({"a": drawn(1, (8, 64), ml_dtypes.float8_e4m3fnuz)}, "both bfloat16"),
    ({"a_scale": np.ones(1, np.float32)}, "belong to float8"), ({"bias": drawn(1, (8,))}, "bias of gemm.matmul must have N = 24"),
    ({"a": TorchTensor(drawn(1, (8, 128))[:, ::2]), "stream": 1}, "a copy of it would run on PyTorch's current stream"),
    ({"alpha": float("nan")}, "alpha of gemm.matmul must be a finite number of float32, got nan"), ({"alpha": 1e39}, "float32, got 1e.39"),
    ({"beta": np.ones(2)}, "beta of gemm.matmul must be a finite number of float32, got a ndarray"), ({"alpha": True}, "got True"),
    ({"a": drawn(1, (8, 64)).astype(np.int32), "out": None}, "a and b of gemm.matmul must be both bfloat16, .* got int32 and bfloat16"),
    ({"invariant": "yes"}, "invariant of gemm.matmul must be True or False, got the str 'yes'"),
    ({"alpha": np.float16("inf")}, "alpha of gemm.matmul must be a finite number of float32, got inf"),
    ({"c": drawn(1, (2, 8, 24)), "beta": 1.0}, r"c of gemm.matmul must be \[8, 24\]"),
    ({"out_dtype": "float16"}, "out of gemm.matmul is bfloat16, and out_dtype is float16"), ({"out_dtype": np.int8}, "float32, got int8"),
    ({"out": np.lib.stride_tricks.as_strided(np.zeros(220, BF16), (8, 24), (40, 2))}, "out of gemm.matmul must have memory of its own"),
    ({"out": TorchTensor(np.empty((8, 48), BF16)[:, ::2])}, "out of gemm.matmul must have the elements of its rows"),
])
def test_what_it_refuses(change: dict[str, Any], sentence: str) -> None:
    given = {"a": drawn(1, (8, 64)), "b": drawn(2, (64, 24)), "out": np.empty((8, 24), BF16)}
    with EmulatedDevice("gfx950") as device, pytest.raises(gemm.TensorError, match=sentence):
        gemm.matmul(**given | change, device=device)


def test_scales_of_blocks_have_no_kernel_for_gfx942() -> None:
    a, b = (drawn(seed, (5, 256), ml_dtypes.float8_e4m3fnuz) for seed in (1, 2))
    scales = np.ones((5, 2), np.float32), np.ones((1, 2), np.float32)
    with EmulatedDevice("gfx942") as device, pytest.raises(gemm.TensorError, match="have no kernel for gfx942; one for all"):
        gemm.fp8(a, b, a_scale=scales[0], b_scale=scales[1], device=device)


@pytest.mark.parametrize(("k", "works"), [(130, "144 columns, zeros the last ones, from"), (256, "256 columns, from")])
def test_rows_with_scales_of_blocks_begin_at_multiples_of_16_bytes(k: int, works: str) -> None:
    a, b = drawn(1, (5, k + 10), E4M3)[:, :k], drawn(2, (7, k + 10), E4M3)[:, :k]
    scales = {name: TorchTensor(np.ones((rows, -(-k // 128)), np.float32)) for name, rows in (("a_scale", 5), ("b_scale", 1))}
    with EmulatedDevice("gfx950") as device, pytest.raises(gemm.TensorError, match=f"lda must be a multiple of 16.*by rows of {works}"):
        gemm.fp8(TorchTensor(a), TorchTensor(b), TorchTensor(np.empty((5, 7), BF16)), **scales, stream=1, device=device)


@pytest.mark.slow
def test_rows_of_any_bytes_with_scales_of_blocks_are_copied() -> None:
    """Arrays of numpy, and tensors without a stream; B by columns of 13 bytes. Next to a single row of A nothing is read: it is taken as it
    lies, for a stream too. Where elements of `out` share memory no copies serve."""
    wide, b = drawn(1, (5, 300), E4M3), drawn(2, (13, 300), E4M3)
    scales = {"a_scale": np.random.default_rng(3).uniform(0.5, 2, (5, 3)).astype(np.float32), "b_scale": np.float32([[0.5, 1, 2]])}
    of_a, of_b = scales["a_scale"].repeat(128, 1)[:, :300], scales["b_scale"].repeat(128, 1)[:, :300]
    right = (wide.astype(np.float64) * of_a) @ (b.astype(np.float64) * of_b).T
    own = {name: TorchTensor(one) for name, one in scales.items()}
    with EmulatedDevice("gfx950") as device:
        assert close(gemm.fp8(wide, b, **scales, device=device), right)
        by_columns = gemm.matmul(TorchTensor(wide), TorchTensor(np.ascontiguousarray(b.T)), TorchTensor(np.empty((13, 5), BF16).T), **own,
                                 device=device)
        assert close(by_columns.array, right)
        strided = np.zeros((13, 304), E4M3)
        strided[:, :300] = b
        row = gemm.fp8(TorchTensor(wide[:1]), TorchTensor(strided[:, :300]), TorchTensor(np.empty((1, 13), BF16)), stream=1, device=device,
                       a_scale=TorchTensor(scales["a_scale"][:1]), b_scale=own["b_scale"])
        assert close(row.array, right[:1])
        over = TorchTensor(np.lib.stride_tricks.as_strided(np.zeros(70, BF16), (5, 13), (20, 2)))
        with pytest.raises(gemm.TensorError, match="of 304 columns"):
            gemm.fp8(TorchTensor(wide), TorchTensor(b), over, **own, device=device)


@pytest.mark.slow
def test_views_that_no_kernel_reads_are_copied() -> None:
    a, b, bias = drawn(1, (3, 8, 128))[..., ::2], drawn(2, (64, 24)), drawn(3, (48,))[::2]
    with EmulatedDevice("gfx950") as device:
        found = gemm.matmul(TorchTensor(a), TorchTensor(np.broadcast_to(b[:, :1], (64, 24))), bias=TorchTensor(bias), device=device).array
    assert close(found, a.astype(np.float64) @ np.broadcast_to(b[:, :1], (64, 24)).astype(np.float64) + bias.astype(np.float64))


@pytest.mark.slow
def test_a_large_product_of_odd_length_runs_on_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = drawn(1, (2, 30, 50)), drawn(2, (50, 40))
    taken: list[str] = []

    def chosen(*given: Any) -> dict[str, Any]:
        build = first(*given)
        taken.append(build["schedule"])
        return build

    monkeypatch.setattr(productplan, "choose", chosen)
    for worth in (2 * 30 * 50 * 40, 2 * 30 * 50 * 40 + 1):
        monkeypatch.setattr(module, "_WORTH", worth)
        productplan.product_plan.cache_clear()
        with EmulatedDevice("gfx950") as device:
            found = gemm.matmul(TorchTensor(a), TorchTensor(b), device=device).array
        assert close(found, a.astype(np.float64) @ b.astype(np.float64))
    assert taken == ["elements", "interleave", "elements"]
    monkeypatch.setattr(module, "_WORTH", 1)
    productplan.product_plan.cache_clear()
    with EmulatedDevice("gfx950") as device:
        assert close(gemm.matmul(a, b, device=device), a.astype(np.float64) @ b.astype(np.float64))
    assert taken[3:] == ["elements", "interleave"], "arrays too"


def test_a_single_row_of_c_lies_as_out_does() -> None:
    a, b, c, out = drawn(1, (1, 64)), drawn(2, (64, 8)), drawn(3, (1, 8)), np.zeros((8, 9), BF16)
    with EmulatedDevice("gfx950") as device:
        gemm.matmul(TorchTensor(a), TorchTensor(b), TorchTensor(out.T[:1]), c=TorchTensor(c), beta=1.0, device=device)
    assert close(out.T[:1], a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)) and not out[:, 1:].any()


@pytest.mark.slow
def test_lines_that_no_kernel_reaches_are_copied() -> None:
    """4 GiB from one to the next; not for a stream, nor where lines of `out` overlap."""
    far = {name: FarLines(1, 3, line, 2 << 30, 0, BF16).lines[0] for name, line in (("a", 64), ("c", 24), ("out", 24))}
    far["a"][...], far["c"][...], b = drawn(1, (3, 64)), drawn(3, (3, 24)), drawn(2, (64, 24))
    given = {name: TorchTensor(one) for name, one in {**far, "b": b}.items()}
    with EmulatedDevice("gfx950") as device:
        gemm.matmul(**given, beta=1.0, device=device)
        over = TorchTensor(np.lib.stride_tricks.as_strided(np.zeros(80, BF16), (3, 24), (40, 2)))
        for more in ({"stream": 1}, {"out": over}):
            with pytest.raises(gemm.TensorError, match="contiguous copies would work"):
                gemm.matmul(**given | more, beta=1.0, device=device)
    assert close(far["out"], far["a"].astype(np.float64) @ b.astype(np.float64) + far["c"].astype(np.float64))


@pytest.mark.slow
def test_one_c_for_a_batch() -> None:
    a, b, c = drawn(1, (2, 3, 9, 64)), drawn(2, (64, 8)), drawn(3, (3, 9, 8))
    with EmulatedDevice("gfx950") as device:
        found = gemm.matmul(TorchTensor(a), TorchTensor(b), c=TorchTensor(c), beta=1.0, device=device).array
    assert close(found, a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64))


def test_fp8_takes_nothing_else() -> None:
    """test_torch_ops launches it."""
    with EmulatedDevice("gfx950") as device, pytest.raises(gemm.TensorError, match="b of gemm.fp8 must be one of .*, got bfloat16"):
        gemm.fp8(drawn(1, (9, 128), E4M3), drawn(2, (24, 128)), device=device)


@pytest.mark.parametrize("shape", [(0, 5, 3), (4, 5, 0), (4, 0, 3)])
def test_axes_without_elements(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    a, b, c, bias = drawn(1, (m, k)), drawn(2, (k, n)), np.ones((m, n), BF16), np.ones(n, BF16)
    with EmulatedDevice("gfx950") as device:
        found = gemm.matmul(a, b, c=c, beta=2.0, bias=bias, device=device)
        assert len(device.launches) == (0 if 0 in (m, n) else 1)
        listed = gemm.matmul([a, a], b, c=[c, 2 * c], beta=2.0, bias=bias, device=device)
    assert found.shape == (m, n) and (found == 3).all()
    assert len(listed) == 2 and (listed[0] == 3).all() and (listed[1] == 5).all()


def test_blocks_of_scales_that_no_column_of_k_has() -> None:
    a, b, c = np.empty((5, 0), E4M3), np.empty((0, 7), E4M3), np.ones((5, 7), BF16)
    scales = {"a_scale": np.empty((5, 0), np.float32), "b_scale": np.empty((1, 0), np.float32)}
    with EmulatedDevice("gfx950") as device:
        assert (gemm.matmul(a, b, c=c, beta=2.0, device=device, **scales) == 2).all()
        with pytest.raises(gemm.TensorError, match=r"b_scale of gemm.matmul must have 1, 7 or \[1, 1\] scales, got the shape \[2, 0\]"):
            gemm.matmul(a, b, c=c, beta=2.0, device=device, a_scale=scales["a_scale"], b_scale=np.empty((2, 0), np.float32))


@pytest.mark.parametrize(("shape", "strides", "own"), [
    ((3, 4), (4, 1), True), ((3, 4), (3, 1), False), ((3, 4), (0, 1), False), ((1, 4), (0, 1), True), ((0, 4), (0, 1), True),
    ((4, 2), (2, 3), True), ((4, 2), (1, 3), False), ((2, 3, 4), (4, 8, 1), True), ((3, 4), (-4, 1), True),
])
def test_elements_that_lie_in_one_place(shape: tuple[int, ...], strides: tuple[int, ...], own: bool) -> None:
    assert has_own_elements(shape, strides) == own


def test_out_shares_nothing_with_what_is_read() -> None:
    whole = drawn(1, (128, 64))
    a, out = TorchTensor(whole[:64]), TorchTensor(whole[32:96])
    with EmulatedDevice("gfx950") as device, pytest.raises(gemm.TensorError, match="shares elements with a"):
        gemm.matmul(a, TorchTensor(drawn(2, (64, 64))), out, device=device)
    with EmulatedDevice("gfx950") as device, pytest.raises(gemm.TensorError, match="shares elements with c"):
        gemm.matmul(drawn(3, (64, 64)), drawn(2, (64, 64)), out, c=a, beta=1.0, device=device)
