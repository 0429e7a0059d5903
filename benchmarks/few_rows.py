"""Products of 1 to 128 rows beside what their bytes take: `python -m benchmarks.few_rows [KERNEL] [GPU] [SHAPES]`.

The goal of a product is the launch's time on the device and that of the bytes of A, B and D at the rate at which HBM is read, or 1.5 us.
Its floor is what no launch of tiles stays below (docs/CYCLE_MODEL.md section 7). Shown are the choice's quick figures; all are predicted.
"""

from __future__ import annotations

import sys
from itertools import product
from statistics import median

from asmgen.isa.timing import GPUS, Timing, timing
from asmgen.kernels.tuned import choice

ROWS = (1, 4, 16, 32, 64, 128)
SIZES = (1024, 4096, 8192, 28672)
SHAPES = tuple(product(ROWS, SIZES, SIZES))
NEAR = 1.15
"""A product is near its goal within this factor of it."""
_BYTES = {"gemm-bf16": 2, "gemm-fp8": 1}
_OF_D = 2
_OF_SUM = 4
_SHORTEST = 1.5e-6
"""Seconds that the goal has at least for its bytes."""
_PARTS = 60
_TILES = (16, 32, 64, 128, 256)
_TOGETHER = 2
"""Workgroups that a unit has at the same time, at most."""


def goal_of(table: Timing, shape: tuple[int, int, int], size: int) -> float:
    """Seconds."""
    return table["launch_device"] * 1e-6 + max(_bytes(shape, size) / (table["hbm_read"] * 1e12), _SHORTEST)


def _bytes(shape: tuple[int, int, int], size: int) -> int:
    m, n, k = shape
    return (m + n) * k * size + m * n * _OF_D


def floor_of(table: Timing, shape: tuple[int, int, int], size: int) -> float:
    """Seconds below which no launch of tiles stays, with K in one part or in several, whose sums a second launch adds."""
    m, n, k = shape
    units = table.clocks("compute_units")
    launch = (table["launch_device"] + (table["latency_llc"] + table["llc_miss"]) / 1e3 + table["latency_l2"] / table["clock_idle"]) * 1e-6
    far, l2, unit = table["hbm_read"] * 1e12, table["grid_load"] * 1e12, table["rate_l2"] * table["clock_idle"] * 1e6
    best = float("inf")
    for rows, columns, parts in product(_TILES, _TILES, range(1, _PARTS + 1)):
        tiles = -(-m // rows) * -(-n // columns) * parts
        if parts > 1 and tiles > _TOGETHER * units:
            continue
        own = (min(rows, m) + min(columns, n)) * k / parts * size * -(-tiles // units)
        seconds = launch + max(_bytes(shape, size) / far, m * n * k * size * (1 / rows + 1 / columns) / l2, own / unit)
        if parts > 1:
            seconds += launch + _OF_SUM * parts * m * n / far
        best = min(best, seconds)
    return best


def chosen_seconds(kernel: str, gpu: str, shape: tuple[int, int, int]) -> tuple[float, str]:
    """What the choice is predicted to take, and its build."""
    found = choice(kernel, GPUS[gpu], gpu, dict(zip("mnk", shape, strict=True)))
    return found.seconds, named(found.build)


def named(build: object) -> str:
    """A build in a few words."""
    assert isinstance(build, dict)
    return f"{build['tile']} {build['schedule']}" + (f", {build['split_k']} parts" if build["split_k"] > 1 else "")


def main(kernel: str = "gemm-bf16", gpu: str = "MI355X", count: int = len(SHAPES)) -> None:
    """Print a line for each of the first so many shapes, and how many are near their goals."""
    table, near, beyond, both = timing(gpu), 0, 0, 0
    of_rows: dict[int, list[float]] = {}
    print("M x N x K               goal us    floor us   choice us  choice/goal   build")
    for shape in SHAPES[:count]:
        goal, floor = (limit(table, shape, _BYTES[kernel]) for limit in (goal_of, floor_of))
        seconds, build = chosen_seconds(kernel, gpu, shape)
        of_rows.setdefault(shape[0], []).append(seconds / goal)
        near += seconds <= NEAR * goal
        if floor > NEAR * goal:
            beyond, both = beyond + 1, both + (seconds <= NEAR * floor)
        numbers = f"{goal * 1e6:8.2f}    {floor * 1e6:8.2f}    {seconds * 1e6:8.2f}     {seconds / goal:8.2f}"
        print(f"{' x '.join(map(str, shape)):22} {numbers}   {build}", flush=True)
    print(f"{near} of {count} within {NEAR} of the goal; {beyond} have a floor above that, {both} of these are within {NEAR} of it")
    print("medians " + ", ".join(f"M = {m} {median(some):.2f}" for m, some in of_rows.items()))


if __name__ == "__main__":
    main(*sys.argv[1:3], *map(int, sys.argv[3:]))
