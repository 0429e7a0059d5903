"""gemm-mx on the emulator: decoded values, orders of scales, odd shapes, orders of waves, and what a step of its loops costs."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from asmgen.author.contract.contract import ContractError
from asmgen.emulator.scheduling.run import Options
from asmgen.isa.codecost import code_bytes
from asmgen.kernels import gemm
from asmgen.kernels.gemm_mx.problem import decoded, packed, planes, shuffled, shuffled_weights, values_of
from asmgen.kernels.registry import family
from asmgen.launch.emulated import EmulatedDevice
from asmgen.tools.inspection.inspection import inspect_program
from asmgen.tools.running.build import Built, build_kernel
from asmgen.tools.running.runner import RunReport, launch, run_kernel
from tests.quantised_patterns import wrong

LIBRARY = family("gemm-mx")
SMALL, LARGE = {"tile": "128x128x256"}, {"tile": "256x256x256"}
ANY, LARGE_ANY, FEW = {"tile": "128x128x128"}, {"tile": "256x256x128"}, {"tile": "32x128x256"}


@cache
def held(build: tuple[tuple[str, Any], ...]) -> Built:
    return build_kernel(LIBRARY, "gfx950", dict(build))


def built(build: dict[str, Any]) -> Built:
    """Once in this file."""
    return held(tuple(sorted(build.items())))


def run(build: dict[str, Any], shape: dict[str, Any], order: str, seed: int = 0) -> RunReport:
    parameters = LIBRARY.contract("gfx950", build).resolve_run({**build, **shape})
    options = Options(order=order, count_banks=True)
    return run_kernel(LIBRARY, built(build), parameters, "emulator", seed=seed, options=options)


def good(report: RunReport) -> bool:
    return report.passed and report.untouched and report.findings == () and report.bank_conflicts == 0


F32 = {"out": "f32"}
WIDE = {"mfma": "32x32x64"}
BIASED = WIDE | {"bias": "row"}
PLANES = {"a_dtype": "bf6", "b_dtype": "fp6", "fp6_storage": "planes"}
CASES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (SMALL | {"out": "f32"}, {"m": 65, "n": 67, "k": 480, "lda": 544, "ldb": 576, "ldsa": 24, "ldsb": 32, "ldd": 69}, "random:1"),
    (SMALL | {"out": "f16", "bias": "row", "window": 2, "scale_order": "plain"},
     {"m": 129, "n": 16, "k": 288, "alpha": -0.5, "beta": 2.0, "ldc": 17, "ldsa": 11}, "serial"),
    (SMALL, {"m": 16, "n": 128, "k": 1536, "batch": 2, "b_stride_batch": 0, "b_scale_stride_batch": 0}, "lockstep"),
    (ANY | {"a_dtype": "fp8", "b_dtype": "fp4", "scale_order": "plain"}, {"m": 33, "n": 20, "k": 32}, "random:2"),
    (ANY | {"a_dtype": "bf8", "b_dtype": "fp8"}, {"m": 20, "n": 130, "k": 672, "ldsb": 32, "batch": 2}, "serial"),
    (FEW | {"out": "f32", "bias": "row"}, {"m": 20, "n": 100, "k": 2080, "lda": 2144}, "random:3"),
    (FEW | {"a_dtype": "fp8", "b_dtype": "fp6", "scale_order": "plain"}, {"m": 33, "n": 18, "k": 288, "ldsb": 11}, "serial"),
    (FEW | {"a_dtype": "bf6", "b_dtype": "fp6", "scales": "none"}, {"m": 3, "n": 130, "k": 800, "ldb": 896}, "lockstep"),
    (SMALL | {"b_order": "shuffled", "scale_order": "plain"}, {"m": 20, "n": 144, "k": 320, "ldb": 384}, "random:4"),
    (ANY | {"a_dtype": "fp4", "b_dtype": "bf8", "b_order": "shuffled"}, {"m": 17, "n": 48, "k": 416, "ldb": 448}, "serial"),
    (FEW | {"a_dtype": "fp6", "b_dtype": "fp8", "b_order": "shuffled"}, {"m": 18, "n": 160, "k": 288}, "lockstep"),
    (FEW | {"b_order": "shuffled", "b_nontemporal": True}, {"m": 7, "n": 112, "k": 1728}, "random:6"),
    (FEW | {"a_dtype": "bf16"}, {"m": 33, "n": 130, "k": 544, "lda": 552}, "random:7"),
    ({"tile": "16x64x256", "a_dtype": "bf16", "rounding": "up", "split_k": 3, "out": "f32"}, {"m": 18, "n": 80, "k": 1888}, "lockstep"),
    ({"schedule": "basic", "a_dtype": "f16", "quantise_to": "fp8", "b_dtype": "fp8", "split_k": 2, "b_order": "shuffled"},
     {"m": 40, "n": 64, "k": 416, "beta": 0.5}, "serial"),
    (ANY | {"a_dtype": "fp6", "b_dtype": "bf6"}, {"m": 40, "n": 30, "k": 416, "lda": 448}, "lockstep"),
    (FEW | {"a_dtype": "fp6", "b_dtype": "bf6", "fp6_storage": "planes", "scale_order": "plain"},
     {"m": 20, "n": 100, "k": 288, "batch": 2, "a_stride_batch": 96}, "serial"),
    ({"schedule": "blocked", "a_dtype": "bf16", "scale_order": "plain"}, {"m": 70, "n": 40, "k": 800, "lda": 808}, "lockstep"),
    ({"schedule": "whole-k", "a_dtype": "bf16", "rounding": "floor", "scale_order": "plain"}, {"m": 20, "n": 50, "k": 512}, "random:8"),
    (SMALL | {"split_k": 3, "scale_order": "plain"}, {"m": 70, "n": 20, "k": 1888, "batch": 2}, "lockstep"),
    ({"a_dtype": "fp8", "b_dtype": "bf8", "scales": "none"}, {"m": 40, "n": 33, "k": 416, "lda": 432}, "lockstep"),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_odd_shapes(case: int) -> None:
    build, shape, order = CASES[case]
    assert good(run(build, shape, order, seed=case))


def test_loads_of_b_alone_are_nontemporal() -> None:
    text = built(FEW | {"b_order": "shuffled", "b_nontemporal": True}).text
    loads = [line.partition(";")[0].split() for line in text.splitlines() if line.startswith("\tbuffer_load_dwordx4")]
    assert {(line[1][0], line[-1] == "nt") for line in loads} == {("v", False), ("a", True)}  # B has AGPRs


@pytest.mark.slow
@pytest.mark.parametrize(("tile", "order", "shape"), [
    (LARGE | BIASED | F32, "lockstep", {"k": 256}), (LARGE, "random:2", {"k": 768, "alpha": 0.75, "beta": -1.5}),
    (LARGE_ANY | F32, "serial", {"k": 352, "n": 256, "alpha": 0.75, "beta": -1.5}),
    (LARGE_ANY | PLANES | F32, "random:3", {"k": 416, "alpha": 0.75}),
    (LARGE | WIDE, "random:4", {"k": 1056, "n": 352, "alpha": 0.75, "beta": -1.5})])
def test_the_large_tiles(tile: dict[str, Any], order: str, shape: dict[str, Any]) -> None:
    """The last one has columns of C as a whole, and, in the second tile of D, as some waves have them and others not."""
    assert good(run(tile, {"m": 253, "n": 254} | shape, order))


def test_shuffled_scales_by_the_formula() -> None:
    """docs/facts/blockscales.md section 2, typed."""
    scales = np.random.default_rng(0).integers(0, 255, (70, 24), dtype=np.uint8)
    found = shuffled(scales).reshape(-1)
    assert found.size == 96 * 24
    for x, y in itertools.product(range(70), range(24)):
        offset = (x >> 5) * 32 * 24 + (y >> 3) * 256 + (y & 3) * 64 + (x & 15) * 4 + (y >> 2 & 1) * 2 + (x >> 4 & 1)
        assert found[offset] == scales[x, y]


def test_shuffled_weights_by_the_formula() -> None:
    """docs/facts/blockscales.md section 3, typed."""
    rows = np.random.default_rng(0).integers(0, 256, (48, 96), dtype=np.uint8)
    found = shuffled_weights(rows).reshape(-1)
    for n, c in itertools.product(range(48), range(96)):
        assert found[(n >> 4) * 16 * 96 + (c >> 4) * 256 + (n & 15) * 16 + (c & 15)] == rows[n, c]


def test_planes_by_the_formula() -> None:
    """docs/facts/blockscales.md section 4, typed: row n, block y, byte z of its 24; 20 rows are 32 in memory."""
    rows = np.random.default_rng(0).integers(0, 256, (20, 5 * 24), dtype=np.uint8)
    found = planes(rows).reshape(-1)
    for n, y, z in itertools.product(range(20), range(5), range(24)):
        tile, row = divmod(n, 16)
        first = tile * 16 * 5 * 16 + y * 256 + row * 16 + z
        second = 2 * 16 * 5 * 16 + tile * 16 * 5 * 8 + y * 128 + row * 8 + z - 16
        assert found[first if z < 16 else second] == rows[n, 24 * y + z]


MAGNITUDES = {
    "fp4": [0, 0.5, 1, 1.5, 2, 3, 4, 6],
    "fp6": [0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1, 1.125, 1.25, 1.375, 1.5, 1.625, 1.75, 1.875,
            2, 2.25, 2.5, 2.75, 3, 3.25, 3.5, 3.75, 4, 4.5, 5, 5.5, 6, 6.5, 7, 7.5],
    "bf6": [0, 0.0625, 0.125, 0.1875, 0.25, 0.3125, 0.375, 0.4375, 0.5, 0.625, 0.75, 0.875, 1, 1.25, 1.5, 1.75,
            2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28],
}
"""OCP Microscaling Formats (MX) 1.0, tables of e2m1, e2m3, e3m2."""


def test_numbers_of_the_formats() -> None:
    for dtype, magnitudes in MAGNITUDES.items():
        assert values_of(dtype).tolist() == [*magnitudes, *(-one for one in magnitudes)]
    for dtype, own in (("fp8", ml_dtypes.float8_e4m3fn), ("bf8", ml_dtypes.float8_e5m2)):
        np.testing.assert_array_equal(values_of(dtype), np.arange(256, dtype=np.uint8).view(own).astype(np.float64))


def test_six_bits_are_a_string() -> None:
    """docs/facts/instructions.md section 2: code n begins at bit 6 n, four codes are three bytes."""
    codes = np.array([[0b000001, 0b000010, 0b110100, 0b101000]], np.uint8)
    assert packed(codes, "fp6").tolist() == [[0b10_000001, 0b0100_0000, 0b101000_11]]


def test_bytes_are_the_formats_numbers() -> None:
    """By hand: 1.5 (code 3, the low half of a byte holds even k) times -6 (code 15), with the scales 2^3 and 2^-1 in one block of eight."""
    one = built(SMALL)
    parameters = LIBRARY.contract("gfx950", SMALL).resolve_run({**SMALL, "m": 2, "n": 2, "k": 256})
    problem = LIBRARY.problem(parameters, 1)
    a, b = (problem.arguments[name] for name in "ab")
    a[:], b[:] = 0, 0
    a[1, 100], b[0, 100] = 0x03, 0x0F  # k = 200, even
    a[1, 17], b[0, 17] = 0x20, 0x20  # k = 35, odd: 1 x 1
    for name, byte in (("a_scale", 130), ("b_scale", 126)):
        problem.arguments[name].reshape(-1)[:] = 127
        row = 1 if name == "a_scale" else 0
        problem.arguments[name].reshape(-1)[(200 // 32 & 3) * 64 + row * 4 + 2] = byte  # block 6 is the second one of K128 half 1
    with EmulatedDevice("gfx950", None, {one.kernel.resources.name: one.kernel.program}) as device:
        d = launch(device, one, problem, parameters)["d"].astype(np.float32)
    np.testing.assert_array_equal(d, [[0, 0], [1.5 * -6 * 2.0**3 * 2.0**-1 + 1, 0]])


@pytest.mark.parametrize(("tile", "unroll", "most", "bytes_"), [(LARGE, 2, 199, 18_600), (LARGE | WIDE, 2, 139, 16_300),
                                                               (SMALL, 4, 79, 11_400)])
def test_a_step_of_the_loop_is_dense_and_the_text_short(tile: dict[str, Any], unroll: int, most: int, bytes_: int) -> None:
    """Every instruction of the steady loop counts, for each wave and 256 columns of K: 128 and 32 of them are matrix instructions. Of the
    text each byte counts, as docs/MICROSCALED_TENSORS.md section 6 has them."""
    program = built(tile).kernel.program
    assert sum(code_bytes(item.name, item.form, item.operands) for item in program.instructions) <= bytes_
    report = inspect_program(program, None).as_json()
    loop = report["loops"][report["main_loop"]]
    assert loop["instructions"] <= most * unroll
    assert not any(loop["groups"][group] for group in ("valu", "valu_address", "accvgpr", "lds_write", "global_load"))


@pytest.mark.parametrize(("values", "sentence"), [
    ({"ldsa": 4}, "ldsa must be at least k / 32"), ({"ldsb": 20}, "ldsb must be at least k / 32, and a multiple of 8"),
    ({"b_order": "shuffled", "n": 8}, "b_order=shuffled takes fp4"), ({"b_order": "shuffled", "n": 16, "k": 96}, "b_order=shuffled takes"),
    ({"k": 48}, "k must be"), ({"lda": 528}, "lda must be a multiple of 16 elements of 8 bits, of 32 of fewer, of 8 of more")])
def test_what_is_not_offered_is_refused(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ContractError, match=sentence):
        LIBRARY.contract("gfx950", SMALL).resolve_run({**SMALL, "m": 1, "n": 1, "k": 512, **values})


@pytest.mark.parametrize(("kind", "to", "rule"), [("bf16", "fp4", "even"), ("f16", "fp8", "up"), ("bf16", "fp8", "floor"),
                                                  ("bf16", "fp4", "up")])
def test_blocks_are_quantised_by_the_rules(kind: str, to: str, rule: str) -> None:
    """A slice of `python -m tests.quantised_patterns`, with the ends of the range and what is no number."""
    random = np.random.default_rng(1)
    patterns = np.concatenate([random.integers(0, 1 << 16, 180), range(8), range(0x7F7C, 0x7F84), [0x7BFF, 0x7C00, 0xFC01, 0x8000]])
    build = {"tile": "32x128x256", "a_dtype": kind, "quantise_to": to, "rounding": rule, "b_dtype": to, "out": "f32"}
    assert list(wrong(build, patterns)) == []


@pytest.mark.parametrize(("build", "shape", "sentence"), [
    ({"schedule": "whole-k"}, {"k": 544}, "k must be .*512"),
    ({"tile": "32x128x256", "a_dtype": "bf16", "scales": "none"}, {"k": 512}, "scales=none takes A and B as they are")])
def test_what_few_rows_refuse(build: dict[str, Any], shape: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ContractError, match=sentence):
        LIBRARY.contract("gfx950", build).resolve_run({**build, "m": 1, "n": 1, **shape})


@pytest.mark.parametrize("variant", LIBRARY.variants("gfx950"), ids=lambda one: f"{one.tile_text}-{one.schedule}")
def test_builds_that_stand_for_others_in_times_are_builds(variant: Any) -> None:
    plain = LIBRARY.contract("gfx950", {"tile": variant.tile_text, "schedule": variant.schedule})
    build = {one.name: one.default for one in plain.parameters if one.kind == "build"} | {"split_k": 3, "out": "f32"}
    assert LIBRARY.timed_as is not None
    timed = LIBRARY.timed_as(build)
    contract = LIBRARY.contract("gfx950", timed)
    assert contract.resolve_run({**timed, **LIBRARY.typical_for(contract)})["a_dtype"] == build["a_dtype"]


def operand(seed: int, rows: int, k: int, dtype: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Codes and scales."""
    random = np.random.default_rng(seed)
    usual = np.flatnonzero(np.abs(np.nan_to_num(values_of(dtype), nan=99)) < 8).astype(np.uint8)
    return random.choice(usual, (rows, k)), random.integers(125, 130, (rows, -(-k // 32)), dtype=np.uint8)


@pytest.mark.parametrize(("of_a", "of_b", "order"), [("fp4", "fp8", "plain"), ("fp6", "fp4", "shuffled")])
def test_tensors(of_a: str, of_b: str, order: str) -> None:
    """Sums of a few products whose codes have 4 bits are exact in float32. A batch of A meets one B."""
    m, n, k = 5, 40, 256 if order == "shuffled" else 96
    several = [operand(seed, m, k, of_a) for seed in (0, 2)]
    b, b_scale = operand(1, n, k, of_b)
    out = np.zeros((2, m, n), np.float32)
    held = packed(b, of_b).view(ml_dtypes.float8_e4m3fn) if of_b == "fp8" else packed(b, of_b)
    place = shuffled if order == "shuffled" else np.asarray
    a, a_scale = np.stack([packed(one, of_a) for one, _ in several]), np.stack([place(scale) for _, scale in several])
    with EmulatedDevice("gfx950") as device:
        assert gemm.mx(a, a_scale, held, place(b_scale), out, a_dtype=of_a, scale_order=order, device=device) is out
    for (codes, scales), found in zip(several, out, strict=True):
        np.testing.assert_array_equal(found, decoded(codes, scales, k, of_a) @ decoded(b, b_scale, k, of_b).T)


def test_tensors_without_elements() -> None:
    """No launch for a D without any; where K has none, D is C. Of builds that tests above and below have made."""
    c, empty, scales = np.arange(80, dtype=np.float32).reshape(2, 5, 8), np.zeros((2, 5, 0), np.uint8), np.zeros((32, 0), np.uint8)
    with EmulatedDevice("gfx950") as device:
        for m, n in ((0, 8), (5, 0)):
            rows = np.zeros((m, 32), np.uint8), np.zeros((m, 2), np.uint8), np.zeros((n, 32), np.uint8), np.zeros((n, 2), np.uint8)
            assert gemm.mx(*rows, device=device).shape == (m, n)
        out, b, two = c.copy(), np.zeros((8, 0), np.uint8), np.stack([scales, scales])
        gemm.mx(empty, two, b, scales, out, a_dtype="fp6", scale_order="shuffled", c=out, beta=2.0, device=device)
        np.testing.assert_array_equal(out, 2 * c)
        a = empty[0].view(ml_dtypes.bfloat16)
        assert not gemm.mx(a, None, np.zeros((16, 0), np.uint8), scales, scale_order="shuffled", b_order="shuffled", device=device).any()
        with pytest.raises(gemm.TensorError, match="b of gemm.mx must have K = 0"):
            gemm.mx(empty, two, np.zeros((8, 16), np.uint8), scales, out, scale_order="shuffled", device=device)
        for columns in (0, 64):  # what is refused of others is refused of these
            wide = np.zeros((5, columns), np.float32), np.zeros((5, columns // 16), np.uint8)
            with pytest.raises(gemm.TensorError, match="a of gemm.mx must be float8_e4m3fn, .* or float16 to quantise; got float32"):
                gemm.mx(*wide, *wide, device=device)
            with pytest.raises(gemm.TensorError, match="b_scale of gemm.mx must be uint8 or float8_e8m0fnu, got float32"):
                gemm.mx(wide[0].astype(np.uint8), wide[1], wide[0].astype(np.uint8), wide[1].astype(np.float32), device=device)
            line = np.zeros(columns, np.uint8)
            with pytest.raises(gemm.TensorError, match=f"must be a matrix or a batch of matrices, got the shape .{columns}"):
                gemm.mx(line, None, line, None, np.zeros((1, 1), np.float32), device=device)


@pytest.mark.parametrize(("batch", "m", "n"), [((), 0, 16), ((), 5, 0), ((), 0, 0), ((2,), 0, 16), ((2,), 5, 0), ((0,), 5, 16)])
def test_tensors_for_a_d_without_elements_are_checked(batch: tuple[int, ...], m: int, n: int) -> None:
    """By the contract too: K, and what orders of B and scales ask for; and what fits is taken."""
    def call(k: int, **given: Any) -> Any:
        a, b = (np.zeros((*batch, rows, k // 2), np.uint8) for rows in (m, n))
        scales = (np.zeros((*batch, -(-rows // 32) * 32, -(-k // 256) * 8), np.uint8) for rows in (m, n))
        return gemm.mx(a, next(scales), b, next(scales), np.empty((*batch, m, n), np.float32), device=device, **given)

    with EmulatedDevice("gfx950") as device:
        bias = np.zeros(n, np.float32)
        for given in ({}, {"scale_order": "shuffled"}, {"scale_order": "shuffled", "b_order": "shuffled"}, {"bias": bias}):
            assert call(64, **given).shape == call(320, **given).shape == (*batch, m, n)
        with pytest.raises(ContractError, match="k must be .*a multiple of 32, got 48"):
            call(48)
        with pytest.raises(ContractError, match="b_order=shuffled takes"):
            call(96, b_order="shuffled")


@pytest.mark.slow
def test_tensors_in_planes_with_c_and_bias() -> None:
    """Without scales, halves, so that sums are exact; a C serves both matrices of the batch, and is D the next time."""
    m, n, k = 5, 40, 96
    random = np.random.default_rng(0)
    codes = {"a": [operand(seed, m, k, "bf6")[0] for seed in (0, 2)], "b": [operand(1, n, k, "fp6")[0]]}
    a, b = (np.stack([planes(packed(one, dtype)) for one in codes[name]]) for name, dtype in (("a", "bf6"), ("b", "fp6")))
    c, bias = (random.integers(-8, 8, shape).astype(np.float32) for shape in ((m, n), n))
    out = np.zeros((2, m, n), np.float32)
    given: dict[str, Any] = {"a_dtype": "bf6", "b_dtype": "fp6", "fp6_storage": "planes", "bias": bias, "alpha": 0.5}
    product = np.stack([decoded(one, None, k, "bf6") @ decoded(codes["b"][0], None, k, "fp6").T for one in codes["a"]])
    with EmulatedDevice("gfx950") as device:
        gemm.mx(a, None, b[0], None, out, device=device, c=c, beta=2.0, **given)
        np.testing.assert_array_equal(out, product / 2 + 2 * c + bias)
        gemm.mx(a, None, b[0], None, out, device=device, c=out, beta=-1.0, **given)
    np.testing.assert_array_equal(out, product / 2 - (product / 2 + 2 * c + bias) + bias)


def test_tensors_of_aiter_with_activations_of_bf16() -> None:
    """b as shuffle_weight and its scales as shuffle_scale make them, a quantised in the kernel: blocks of small integers lose nothing."""
    m, n, k = 5, 48, 512
    a = np.random.default_rng(0).choice([-6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6], (m, k)).astype(ml_dtypes.bfloat16)
    a[:, ::32] = 6
    b, b_scale = operand(1, n, k, "fp4")
    with EmulatedDevice("gfx950") as device:
        weights = shuffled_weights(packed(b, "fp4"))
        out = gemm.mx(a, None, weights, shuffled(b_scale), scale_order="shuffled", b_order="shuffled", device=device)
    wanted = a.astype(np.float32) @ decoded(b, b_scale, k, "fp4").T
    assert out.dtype == a.dtype
    np.testing.assert_array_equal(out, wanted.astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize(("change", "sentence"), [
    ({"a_scale": None}, "a_scale of gemm.mx must be None for an a of bfloat16"),
    ({"b": np.zeros((8, 48), np.uint8)}, "b of gemm.mx must have K = 64"), ({"a_scale": np.zeros((4, 1), np.uint8)}, "a_scale of gemm.mx"),
    ({"out": np.zeros((4, 9), np.float32)}, r"out of gemm.mx must be \[M, N\]"), ({"a_dtype": "fp5"}, "a_dtype of gemm.mx"),
    ({"b_scale": np.zeros((8, 2), np.float32)}, "b_scale of gemm.mx must be uint8"),
    ({"b": np.zeros((2, 8, 32), np.uint8)}, r"out of gemm.mx must be \[M, N\] = \[2, 4, 8\]"),
    ({"b": np.zeros((2, 8, 32), np.uint8), "a": np.zeros((3, 4, 32), np.uint8), "out": np.zeros((3, 4, 8), np.float32)},
     "b of gemm.mx must be"),
    ({"alpha": None}, "alpha of gemm.mx must be a finite number of float32, got a NoneType"),
    ({"beta": float("nan")}, "beta of gemm.mx must be"), ({"device": "gfx950"}, "device of gemm.mx must be a device"),
    ({"rounding": ["even"]}, "rounding of gemm.mx must be a name, got a list"), ({"out": None, "b": None}, "got a NoneType as b"),
    ({"out": None, "a": [1]}, "out of gemm.mx must be given where a is a list"),
    ({"scale_order": "shuffled"}, "a_scale of gemm.mx"), ({"b_scale": None}, "given are a_scale"),
    ({"a": np.zeros((4, 64), ml_dtypes.float8_e4m3fn), "a_dtype": "bf8"}, "a_dtype of gemm.mx is 'bf8', but a is float8_e4m3fn"),
    ({"tuned": "yes"}, "tuned of gemm.mx must be True or False"),
    ({"beta": 1.0}, "c of gemm.mx must be given where beta is 1.0"), ({"bias": np.zeros(4, np.float32)}, "bias of gemm.mx must have N = 8"),
    ({"c": np.zeros((4, 8), np.uint8), "beta": 1.0}, "c of gemm.mx must be of the type of out, float32, got uint8"),
    ({"c": np.zeros((8, 4), np.float32)}, r"c of gemm.mx must be \[M, N\] = \[4, 8\], got \[8, 4\]"),
    ({"a": np.zeros((4, 48), np.uint8), "a_dtype": "fp6", "fp6_storage": "planes"}, "a of gemm.mx in two planes must have its 4 rows"),
    ({"out": (shared := np.zeros((4, 8), np.float32)), "bias": shared[0]}, "out of gemm.mx shares elements with bias")])
def test_tensors_that_do_not_fit(change: dict[str, Any], sentence: str) -> None:
    given: dict[str, Any] = {"a": np.zeros((4, 32), np.uint8), "a_scale": np.zeros((4, 2), np.uint8), "b": np.zeros((8, 32), np.uint8),
                             "b_scale": np.zeros((8, 2), np.uint8), "out": np.zeros((4, 8), np.float32)}
    with EmulatedDevice("gfx950") as device, pytest.raises(gemm.TensorError, match=sentence):
        gemm.mx(**given | {"device": device} | change)
