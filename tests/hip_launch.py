"""Runs kernels of tests/hip_sources on the emulator in three wave orders, which must agree bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from asmgen.emulator.scheduling.run import Options
from asmgen.launch.emulated import EmulatedDevice
from tests.clang_objects import hip_object

ORDERS = ("lockstep", "serial", "random:5")
Array = np.ndarray[Any, Any]


def run_hip(source: str, arch: str, kernel: str, grid: int | Sequence[int], block: int, args: Sequence[Any], orders: Sequence[str] = ORDERS,
            level: int = 2, dynamic_lds: int = 0, same: bool = True, warnings: frozenset[str] = frozenset()) -> list[Array]:
    """The arrays among `args` after a launch of `grid` workgroups (x, or x, y, z) of `block` work-items; `args` stay as they are.

    Every order is run on its own copies, with checks; there must be no finding but `warnings` of these checks, and all must
    agree where `same` is True.
    """
    sizes = (grid, 1, 1) if isinstance(grid, int) else (*grid, *(1,) * (3 - len(grid)))
    found: list[list[Array]] = []
    for order in orders:
        copies = [value.copy() if isinstance(value, np.ndarray) else value for value in args]
        device = EmulatedDevice(arch, Options(order=order))
        result = device.launch(hip_object(source, arch, level).kernel(kernel), sizes, (block, 1, 1), copies, dynamic_lds)
        findings = [finding for finding in result.findings if finding.severity == "error" or finding.check not in warnings]
        assert [finding.sentence() for finding in findings] == [], order
        found.append([value for value in copies if isinstance(value, np.ndarray)])
    if same:
        for order, other in zip(orders[1:], found[1:], strict=True):
            for position, (first, second) in enumerate(zip(found[0], other, strict=True)):
                assert first.tobytes() == second.tobytes(), f"array {position} differs between {orders[0]} and {order}"
    return found[0]


def ints(count: int, seed: int, low: int = -(1 << 31), high: int = (1 << 31) - 1) -> Array:
    """Random 32-bit integers, all values between the bounds."""
    return np.random.default_rng(seed).integers(low, high, count, np.int64, endpoint=True).astype(np.int32)


def floats(count: int, seed: int, scale: float = 4.0) -> Array:
    """Random f32 numbers of both signs."""
    return ((np.random.default_rng(seed).random(count) - 0.4) * scale).astype(np.float32)
