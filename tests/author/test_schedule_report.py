"""The report of a schedule: gaps, bounds and predicted fill of streams counted by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from asmgen.author.emit.builder import Builder
from asmgen.author.schedule.schedulereport import ScheduleReport, schedule_report
from asmgen.author.schedule.schedules import Arrangement, Sync
from asmgen.author.step.effects import Tag, Unit
from asmgen.isa.registers import s, v

EMIT: dict[str, Callable[[Builder], object]] = {
    "M": lambda k: k.v_mfma_f32_16x16x16_bf16(v[0:3], v[4:5], v[6:7], v[0:3]),
    "L": lambda k: k.v_mfma_f32_32x32x8_bf16(v[0:15], v[16:17], v[18:19], v[0:15]),
    "v": lambda k: k.v_add_f32(v[20], v[21], v[22]),
    "r": lambda k: k.ds_read_b128(v[24:27], v[28]),
    "w": lambda k: k.ds_write_b64(v[28], v[24:25]),
    "g": lambda k: k.buffer_load_dword(v[24], v[28], s[0:3], 0, offen=True),
    "f": lambda k: k.buffer_load_dwordx4(v[28], s[0:3], 0, offen=True, lds=True),
}


def report(letters: str, waves: int = 1, arch: str = "gfx950", staggered: bool = False) -> ScheduleReport:
    """`M` a v_mfma_f32_16x16x16_bf16 (16 clk), `L` a 32x32x8 (32 clk), `v` a VALU instruction, `r` a ds_read_b128, `w` a ds_write_b64, `f`
    a load of 16 bytes a lane into LDS, `g` one of 4 bytes into a register, `|` a barrier."""
    order: list[int | Sync] = []
    units: list[Unit] = []
    for letter in letters:
        if letter == "|":
            order.append(Sync("barrier"))
            continue
        k = Builder("k", arch)
        EMIT[letter](k)
        order.append(len(units))
        units.append(Unit(len(units), tuple(k.items), Tag("main", ordinal=len(units))))
    return schedule_report(arch, units, Arrangement(tuple(order)), waves, staggered)


def figures(found: ScheduleReport) -> Sequence[float]:
    return [found.bounds[name] for name in ("matrix", "lds", "memory_port", "issue")]


@pytest.mark.parametrize(("letters", "waves", "expected", "cycles"), [
    # Four waves of one SIMD each: a read keeps the banks busy for 4 clk, its SIMD's way for 8; 1 KiB takes 16 clk from the cache.
    ("MM", 1, [32, 0, 0, 16], 32),
    ("MvMr", 1, [32, 16, 0, 24], 32),
    ("Mf", 1, [16, 0, 64, 12], 64),
    ("Mg", 1, [16, 0, 16, 12], 16),
    ("Mvvv", 1, [16, 0, 0, 20], 20),  # one more than its window takes
    ("LvvvvvvM", 1, [48, 0, 0, 40], 48),
    ("MvvvM", 1, [32, 0, 0, 28], 36),
    ("MvvvM", 2, [64, 0, 0, 44], 64),  # another wave fills the gap
    ("rrrr", 1, [0, 64, 0, 16], 64),
    ("w", 1, [0, 16, 0, 4], 16)])
def test_bounds_and_clocks(letters: str, waves: int, expected: Sequence[float], cycles: float) -> None:
    found = report(letters, waves)
    assert list(figures(found)) == expected and found.cycles == cycles
    assert found.bounds[found.binding] == max(expected)
    assert found.distance == pytest.approx(cycles / max(expected) - 1)
    assert found.fill == pytest.approx(expected[0] / cycles)


def test_a_block_costs_its_branch_and_a_schedule_of_its_own_clock_counts() -> None:
    """A rare block's code is not issued in most steps. A schedule that knows more of a step than the report says how long it is, but no
    step is shorter than its bounds."""
    k = Builder("k", "gfx950")
    for _ in range(9):
        EMIT["v"](k)
    units = [Unit(0, tuple(k.items), Tag("main", ordinal=0, block="rare"))]
    alone = schedule_report("gfx950", units, Arrangement((0,)), 1, False)
    assert alone.bounds["issue"] == alone.cycles == 4
    assert schedule_report("gfx950", units, Arrangement((0,), clocks=36), 1, False).cycles == 36
    assert schedule_report("gfx950", units, Arrangement((0,), clocks=1), 1, False).cycles == 4


def test_gaps_close_over_the_seam() -> None:
    assert report("vMrrMMv").gaps == {0: 1, 2: 2}
    assert report("vv").gaps == {}


def test_ping_pong_hides_a_stage_behind_the_other_groups() -> None:
    """Two waves a SIMD: while one group has 4 matrix instructions, 64 clk, the other has 2 reads and what they take to arrive."""
    found = report("rr|MMMM|", 2, staggered=True)
    assert (found.bounds["matrix"], found.cycles) == (128, 2 * max(64, 32 + 64))
    assert report("v|MMMM|", 2, staggered=True).fill == 1


def test_the_text_says_that_it_is_predicted() -> None:
    lines = report("MvvvM").lines()
    assert "predicted: 36 clk, matrix cores filled 88.9%" in lines[0] and "matrix binds, 12.5% above it" in lines[1]
    assert lines[2].endswith("0 (1x), 3 (1x)")
    assert len(report("v").lines()) == 2


def test_gfx942_has_its_own_table() -> None:
    found = report("Mr", arch="gfx942")
    assert found.gpu == "MI300X" and found.bounds["lds"] == 32
