"""Orders of tiles over workgroups: scalar code on the emulator and the model's numbers agree on every workgroup; all are bijections."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from asmgen.author.address.division import Divisor
from asmgen.author.address.tileorder import chunk_by_xcd, flat_number, place_tile, rotate_by_xcd, window_order
from asmgen.author.contract.contract import ContractArgument, Formula, KernelContract
from asmgen.author.emit.kernel import KernelBuilder
from asmgen.isa.errors import AsmgenError
from asmgen.isa.registers import Reg
from asmgen.model.gridorder import GridOrder
from asmgen.program.program import Program
from tests.emulator_launch import launch

ARGUMENTS = ("pointer out", "u32 rows", "u32 columns", "u32 window", "u32 chunk")


def kernel(arguments: tuple[str, ...], emit: Callable[[KernelBuilder, Reg, Reg], None]) -> Program:
    """One wave stores two scalars at 8 bytes times its workgroup's number, for which x of the grid is the fastest."""
    table = tuple(ContractArgument(name, kind, "") for kind, name in (one.split() for one in arguments))
    contract = KernelContract("order", "orders", ("gfx950",), (), table, (64, 1, 1), Formula("one", lambda _: (1, 1, 1)))
    k = KernelBuilder(contract, "gfx950", {}, workgroup_ids="xy")
    one, two = k.registers.sgprs(1, "one"), k.registers.sgprs(1, "two")
    emit(k, one, two)
    data, at = k.registers.vgprs(2, "data"), k.registers.vgprs(1, "at")
    with k.scratch("number", file="s") as number:
        k.s_mov_b32(number, k.ids["x"])
        if "u32 columns" in arguments:
            flat_number(k, number, k.ids["x"], k.ids["y"], k.argument("columns"))
        k.s_lshl_b32(number, number, 3)
        k.v_mov_b32(at, number)
    k.v_mov_b32(data[0], one)
    k.v_mov_b32(data[1], two)
    k.global_store_dwordx2(at, data, k.argument("out"))
    k.s_endpgm()
    return k.finish().program


@cache
def placing(window: int | str, chunk: int | str) -> Program:
    """The paper's order; a string is an argument's name."""
    def emit(k: KernelBuilder, row: Reg, column: Reg) -> None:
        sizes = [k.argument(one) if isinstance(one, str) else one for one in (window, chunk)]
        place_tile(k, row, column, k.ids["x"], k.ids["y"], k.argument("rows"), k.argument("columns"), sizes[0], sizes[1])

    return kernel(ARGUMENTS, emit)


@cache
def rotating(window: int) -> Program:
    def emit(k: KernelBuilder, row: Reg, column: Reg) -> None:
        with k.scratch("number", 2, "s") as number:
            flat_number(k, number[0], k.ids["x"], k.ids["y"], k.argument("columns"))
            k.s_mul_i32(number[1], k.argument("rows"), k.argument("columns"))
            rotate_by_xcd(k, number[0], number[1])
            window_order(k, row, column, number[0], k.argument("rows"), k.argument("columns"), window)

    return kernel(ARGUMENTS, emit)


def places(program: Program, rows: int, columns: int, window: int = 1, chunk: int = 1, checks: bool = True) -> list[tuple[int, int]]:
    """What the workgroups of a launch stored."""
    out = np.full((rows * columns, 2), -1, np.int32)
    done = launch("gfx950", program, (columns, rows, 1), (64, 1, 1), [out], [rows, columns, window, chunk], checks=checks)
    assert not done.findings
    return [(int(row), int(column)) for row, column in done.buffers[0]]


SIZES: list[tuple[int | str, int | str]] = [(5, 25), (8, 64), (7, 3), (1, 1), (4, 7), (3, 12), (16, 5), ("window", "chunk"), ("window", 2),
                                            (6, "chunk")]


def random_grids(count: int) -> list[tuple[int, int, int, int, int | str, int | str]]:
    """Rows, columns, window, chunk, and how the kernel knows the last two. Sizes with and without whole rounds, rows and columns of one."""
    rng, found = random.Random(13), []
    for number in range(count):
        written = SIZES[number % len(SIZES)]
        edge = rng.choice((4, 12, 40))
        window, chunk = (one if isinstance(one, int) else rng.randint(1, 30) for one in written)
        found.append((rng.randint(1, edge), rng.randint(1, edge), window, chunk, *written))
    return found


@pytest.mark.slow
def test_paper_order_on_200_random_grids() -> None:
    moved = whole = 0
    for number, (rows, columns, window, chunk, *written) in enumerate(random_grids(200)):
        order = GridOrder(rows, columns, window, chunk)
        expected = order.tiles_in_order()
        assert len(set(expected)) == rows * columns and max(expected)[0] == rows - 1, order
        assert places(placing(written[0], written[1]), rows, columns, window, chunk, number < len(SIZES)) == expected, order
        moved += expected != GridOrder(rows, columns, window).tiles_in_order()
        whole += rows * columns % (8 * chunk) == 0
    assert moved > 50 and 200 - whole > 100


def test_paper_order_by_hand() -> None:
    """17 tiles in 3 columns, windows of 2, chunks of 2: workgroup 9 is the second of XCD 1, so the fourth tile; number 16 stays last."""
    order = GridOrder(6, 3, 2, 1)
    assert [order.place(number) for number in (0, 1, 2, 3, 6, 16, 17)] == [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (4, 2), (5, 2)]
    assert GridOrder(6, 3, 2, 2).place(9) == (1, 1) and GridOrder(6, 3, 2, 2).place(8) == (1, 0)
    assert GridOrder(6, 3, None, 2).place(9) == (1, 0) and GridOrder(6, 3, None, 2).place(16) == (5, 1)
    assert [GridOrder(1, 12, None, 100).place(number)[1] for number in range(12)] == [0, 2, 4, 6, 8, 10, 9, 11, 1, 3, 5, 7]
    assert GridOrder(5, 2, 3).tiles_in_order()[5:] == [(2, 1), (3, 0), (4, 0), (3, 1), (4, 1)]


@pytest.mark.parametrize("window", [1, 4])
def test_rotation(window: int) -> None:
    rng = random.Random(window)
    for rows, columns in [(3, 8), (1, 1), (2, 11), *((rng.randint(1, 20), rng.randint(1, 20)) for _ in range(12))]:
        order = GridOrder(rows, columns, window, rotated=True)
        expected = order.tiles_in_order()
        assert len(set(expected)) == rows * columns
        assert places(rotating(window), rows, columns) == expected, order


def test_rotation_moves_three_bits() -> None:
    order = GridOrder(1, 24, rotated=True)
    assert [order.place(number)[1] for number in range(24)] == [(number & 7) * 3 + (number >> 3) for number in range(24)]


def test_orders_that_are_none() -> None:
    for sizes in ({"window": 0}, {"chunk": -1}, {"rows": 0}, {"chunk": 2, "rotated": True}):
        with pytest.raises(AsmgenError, match="or|would work"):
            GridOrder(**({"rows": 4, "columns": 4} | sizes))  # type: ignore[arg-type]
    contract = KernelContract("order", "orders", ("gfx950",), (), (), (64, 1, 1), Formula("one", lambda _: (1, 1, 1)))
    k = KernelBuilder(contract, "gfx950", {})
    held: Any = k.registers.sgprs(4, "held")
    with pytest.raises(AsmgenError, match="chunk of 0"):
        chunk_by_xcd(k, held[0], held[1], 0)
    with pytest.raises(AsmgenError, match="window of -2"):
        window_order(k, held[0], held[1], held[2], held[3], held[3], -2)


def division() -> Program:
    """Quotient and remainder of pairs (dividend, divisor) in memory, one a workgroup."""
    def emit(k: KernelBuilder, quotient: Reg, remainder: Reg) -> None:
        pair, reciprocal = k.registers.sgprs(2, "pair"), k.registers.sgprs(1, "reciprocal")
        k.s_lshl_b32(quotient, k.ids["x"], 3)
        k.s_load_dwordx2(pair, k.argument("pairs"), quotient)
        Divisor(k, pair[1], reciprocal).divide(k, quotient, remainder, pair[0])

    return kernel(("pointer out", "pointer pairs"), emit)


def test_division_is_exact() -> None:
    rng = random.Random(3)
    edges = [1, 2, 3, 7, 255, 256, 257, (1 << 16) - 1, 1 << 16, (1 << 24) + 1, (1 << 31) - 1, 1 << 31, (1 << 32) - 2, (1 << 32) - 1]
    pairs = [(one + step, two) for one in (0, *edges) for two in edges for step in (-1, 0, 1) if 0 <= one + step < 1 << 32]
    pairs += [(min((1 << 32) - 1, two * times + step), two) for two in (rng.randrange(1, 1 << rng.randint(1, 32)) for _ in range(300))
              for times in (1, ((1 << 32) - 1) // two) for step in (-1, 0)]
    data = np.array(pairs, np.uint32)
    done = launch("gfx950", division(), (len(pairs), 1, 1), (64, 1, 1), [np.zeros_like(data), data])
    assert not done.findings
    assert [(int(one), int(two)) for one, two in done.buffers[0]] == [divmod(*pair) for pair in pairs]
