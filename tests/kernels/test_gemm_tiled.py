"""gemm-bf16 on the emulator: types, alpha, beta, bias, orders of tiles, a variant of each schedule."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from asmgen.author.contract.contract import ContractError
from asmgen.author.ops.refill import bytes_on_the_way
from asmgen.emulator.scheduling.run import Options
from asmgen.kernels.registry import family
from asmgen.program.controlflow import control_flow
from asmgen.tools.running.build import Built, build_kernel
from asmgen.tools.running.runner import RunReport, run_kernel

LIBRARY = family("gemm-bf16")
SMALL = {"tile": "128x128x64", "schedule": "interleave"}
LARGE = {"tile": "256x256x64", "schedule": "ping-pong"}
ROLES = {"schedule": "producer-consumer"}


@cache
def built(build: tuple[tuple[str, Any], ...], arch: str) -> Built:
    return build_kernel(LIBRARY, arch, dict(build))


def run(build: dict[str, Any], shape: dict[str, Any], order: str = "lockstep", arch: str = "gfx950") -> RunReport:
    parameters = LIBRARY.contract(arch, build).resolve_run({**build, **shape})
    return run_kernel(LIBRARY, built(tuple(build.items()), arch), parameters, "emulator", options=Options(order=order, count_banks=True))


def good(report: RunReport) -> bool:
    return report.passed and report.untouched and report.findings == () and report.bank_conflicts == 0


CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"out": "f32"}, {"alpha": 1.5, "beta": -0.5}),
    ({"bias": "row"}, {"alpha": 2.0}),
    ({"dtype": "f16", "out": "bf16", "bias": "row"}, {"beta": 1.0}),
    ({"out": "f16", "bias": "row", "window": 2, "chunk": 2}, {"alpha": -1.0, "beta": 0.25}),
]


@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.parametrize("shape", [{"m": 130, "n": 131, "k": 64}, {"m": 7, "n": 128, "k": 192, "ldd": 129, "ldc": 131}], ids=("cut", "odd"))
def test_what_d_is_beside_the_product(case: int, shape: dict[str, int]) -> None:
    build, values = CASES[case]
    assert good(run(SMALL | build, shape | values))


@pytest.mark.parametrize("case", range(len(CASES)))
def test_what_d_is_beside_the_product_on_gfx942(case: int) -> None:
    build, values = CASES[case]
    shape = {"m": 7, "n": 128, "k": 192, "ldd": 129, "ldc": 131} if case % 2 == 0 else {"m": 130, "n": 131, "k": 64}
    assert good(run(SMALL | build, shape | values, arch="gfx942"))


@pytest.mark.parametrize(("build", "steps"), [({"tile": "32x32x64", "schedule": "interleave"}, (1, 2, 5, 9)),
                                              ({"tile": "64x64x64", "schedule": "interleave", "b_layout": "column"}, (1, 8))])
def test_steps_that_are_asked_for_early_may_lie_beyond_k(build: dict[str, Any], steps: tuple[int, ...]) -> None:
    """Of a tile whose columns are whole, and of one whose are not."""
    for number, count in enumerate(steps):
        shape = {"m": 20, "n": 40 if build["tile"] == "32x32x64" else 72, "k": 64 * count}
        assert good(run(build, shape, "serial" if number % 2 else "lockstep", "gfx942")), count


@pytest.mark.parametrize(("tile", "asked"), [("32x32x64", 4 * 8), ("64x64x64", 3 * 8), ("128x128x64", 8)])
def test_tiles_of_few_rows_have_steps_on_their_way_before_lds_gets_one(tile: str, asked: int) -> None:
    """A step is 8 loads of a wave. Tiles of many rows have one on its way: their products hide its trip."""
    names = [one.name for one in built((("tile", tile), ("schedule", "interleave")), "gfx942").kernel.program.instructions]
    first = next(number for number, name in enumerate(names) if name.startswith("ds_write"))
    assert sum(name.startswith("buffer_load") for name in names[:first]) == asked


@pytest.mark.parametrize(("arch", "bytes_"), [("gfx942", 25 * 798), ("gfx950", 25 * 864)])
def test_what_is_on_the_way_to_a_unit_by_itself(arch: str, bytes_: int) -> None:
    """Rate x latency of HBM; the same for any table whose product is above 16 KB and at most 24 KB: 8 KB a step in 32 rows, 16 in 64."""
    assert bytes_on_the_way(arch) == bytes_ and 2 * 8192 < bytes_ <= 3 * 8192


def test_rows_of_c_are_as_long_as_those_of_d() -> None:
    with pytest.raises(ContractError, match="ldc must be at least n"):
        LIBRARY.contract("gfx950").resolve_run({"m": 1, "n": 129, "k": 64, "ldc": 128})


def test_whole_tiles_take_the_wide_stores() -> None:
    for build in (SMALL, SMALL | {"out": "f32"}):
        assert good(run(build, {"m": 127, "n": 256, "k": 128}))


@pytest.mark.parametrize(("arch", "build"), [("gfx950", {}), ("gfx942", {}), ("gfx942", {"out": "f32"}),
                                             ("gfx950", {"tile": "128x256x64", "schedule": "producer-consumer", "out": "f16"})])
def test_whole_columns_take_a_bias_while_the_last_step_computes(arch: str, build: dict[str, Any]) -> None:
    chosen = SMALL | build | {"bias": "row"}
    report = run(chosen, {"m": 70, "n": 256, "k": 128}, arch=arch)
    labels = built(tuple(chosen.items()), arch).kernel.program.labels
    assert good(report) and not report.counts[next(place for label, place in labels.items() if label.startswith("of_corner"))]


def test_c_is_not_read_where_beta_is_0() -> None:
    """The problem's C has one row then; a read beyond it would be found."""
    assert good(run(SMALL, {"m": 130, "n": 131, "k": 64, "alpha": 3.0}))


@pytest.mark.parametrize("order", [{"window": 1}, {"chunk": 3}, CASES[-1][0]], ids=("window", "chunk", "both"))
def test_every_order_of_tiles_makes_every_tile(order: dict[str, Any]) -> None:
    assert good(run(SMALL | order, {"m": 513, "n": 300, "k": 64}))


@pytest.mark.parametrize("tile", ["64x64x64", "64x256x64"])
def test_steps_shorter_than_what_they_load(tile: str) -> None:
    """Windows of the matrix stream hold two things each, the last one a load: sources move on behind it."""
    assert good(run(SMALL | {"tile": tile}, {"m": 67, "n": 259, "k": 320, "ldb": 328}))


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["ping-pong", "interleave"])
def test_the_large_tile_of_gfx942_on_an_odd_shape(schedule: str) -> None:
    build = LARGE | {"schedule": schedule, "dtype": "f16", "out": "f16"}
    assert good(run(build, {"m": 253, "n": 131, "k": 192, "ldb": 200, "ldc": 132, "alpha": 2.0, "beta": -1.0}, "random:5", "gfx942"))


@pytest.mark.slow
def test_ping_pong_on_an_odd_shape() -> None:
    """In one order; shares of dwords below run in each."""
    assert good(run(LARGE, {"m": 253, "n": 261, "k": 192, "lda": 200, "ldd": 264}, "random:3"))


@pytest.mark.parametrize(("steps", "order"), [(1, "serial"), (2, "random:3"), (5, "lockstep")])
def test_ping_pong_with_shares_of_dwords(steps: int, order: str) -> None:
    """Half of 192 rows is one and a half lines of 16 bytes a lane for each of eight waves, so dwords come."""
    shape = {"m": 100, "n": 131, "k": 64 * steps, "lda": 64 * steps + 8, "ldd": 133}
    assert good(run(LARGE | {"tile": "192x256x64"}, shape, order))


@pytest.mark.parametrize("steps", range(1, 8))
def test_roles_on_odd_shapes_for_every_count(steps: int) -> None:
    """Odd and even counts, up to two rounds of the loop: every path, in each order of waves."""
    build = ROLES | ({"dtype": "f16", "out": "f16"} if steps % 3 == 0 else {})
    shape = {"m": 67, "n": 131, "k": 64 * steps, "lda": 64 * steps + 8, "ldd": 133, "beta": 0.5 * (steps == 2)}
    assert good(run(build, shape, ("lockstep", "serial", "random:3")[steps % 3]))


@pytest.mark.parametrize(("steps", "order"), [(1, "serial"), (5, "random:3"), (6, "lockstep")])
def test_twelve_consumers_on_an_odd_shape(steps: int, order: str) -> None:
    assert good(run(ROLES | {"tile": "192x256x64"}, {"m": 131, "n": 259, "k": 64 * steps, "lda": 64 * steps + 8, "ldd": 261}, order))


def test_roles_have_tiles_of_their_own() -> None:
    with pytest.raises(ContractError, match="no variant tile=256x256x64 schedule=producer-consumer for gfx950; there are, the nearest "
                                            "first: .*tile=192x256x64 schedule=producer-consumer"):
        build_kernel(LIBRARY, "gfx950", LARGE | ROLES)
    with pytest.raises(ContractError, match="schedule=producer-consumer for gfx942"):
        build_kernel(LIBRARY, "gfx942", ROLES)


@pytest.mark.parametrize(("name", "given", "nearest"), [
    ("gemm-bf16", {"a_layout": "column", "tile": "16x16x64"}, "tile=32x32x64 schedule=in-order"),
    ("gemm-bf16", {"b_layout": "column", "schedule": "producer-consumer", "tile": "192x256x64"}, "tile=192x256x64 schedule=ping-pong"),
    ("gemm-fp8", {"scales": "block", "b_layout": "column", "tile": "16x32x128"}, "tile=.* scales=block"),
])
def test_the_nearest_variant_is_named_first(name: str, given: dict[str, str], nearest: str) -> None:
    """What a variant computes counts before its tile, and that before its schedule."""
    with pytest.raises(ContractError, match=f"there are, the nearest first: {nearest}"):
        family(name).contract("gfx950", given)


@pytest.mark.parametrize("tile", ["128x256x64", "192x256x64"])
def test_registers_fit_the_waves_of_both_roles(tile: str) -> None:
    """A SIMD has 512 registers: 168 for each of three waves, 128 for each of four."""
    kernel = built(tuple((ROLES | {"tile": tile}).items()), "gfx950").kernel
    waves = kernel.contract.workgroup[0] // 64
    assert waves == {"128x256x64": 12, "192x256x64": 16}[tile] and -(-kernel.resources.vgprs // 8) * 8 * waves // 4 <= 512


@pytest.mark.parametrize("tile", ["128x256x64", "192x256x64"])
def test_no_wait_state_is_filled_with_nothing_in_the_loops_of_roles(tile: str) -> None:
    """As a producer's source goes on between M0 and the load that reads it."""
    program = built(tuple((ROLES | {"tile": tile}).items()), "gfx950").kernel.program
    names = [instruction.name for instruction in program.instructions]
    loops = [loop for loop in control_flow(program).loops() if "s_barrier" in names[loop.first:loop.last + 1]]
    assert len(loops) == 2 and not any("s_nop" in names[loop.first:loop.last + 1] for loop in loops)


@pytest.mark.parametrize(("build", "sentence"), [({"out": "fp8"}, "out"), ({"bias": "both"}, "bias"), ({"window": -1}, "window")])
def test_what_is_not_offered_is_refused(build: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ContractError, match=sentence):
        build_kernel(LIBRARY, "gfx950", SMALL | build)
