"""Ping-pong whose stages the engine places: the clock of two waves counted by hand, and orders that are shorter than the even one."""

from __future__ import annotations

import pytest

from asmgen.author.emit.builder import Builder
from asmgen.author.schedule.pairclock import PairClock
from asmgen.author.schedule.schedules import PingPong
from asmgen.author.schedule.stagescheduler import PlacedPingPong
from asmgen.author.schedule.unitcosts import StepMachine
from asmgen.author.step.effects import Unit
from asmgen.isa.registers import v

MACHINE = StepMachine("gfx950", 2)
LATENCY = 16  # ticks of 4 clk until the first data of a read are there (docs/facts/measured_gfx950.md section 0: 64 clk)


def step(*stages: str) -> list[Unit]:
    """A unit a letter: `M` a v_mfma_f32_32x32x16_bf16 (8 ticks), `v` a VALU instruction, `t` v_exp_f32 (2 ticks of the port), `r` a
    ds_read_b128."""
    k = Builder("step", "gfx950")
    with k.section() as section:
        for letters in stages:
            for at, letter in enumerate(letters):
                if letter == "M":
                    k.v_mfma_f32_32x32x16_bf16(v[16 * at:16 * at + 15], v[200:203], v[204:207], 0)
                elif letter == "r":
                    k.ds_read_b128(v[208 + 4 * (at % 4):211 + 4 * (at % 4)], v[255])
                else:
                    (k.v_exp_f32 if letter == "t" else k.v_mov_b32)(v[128 + at % 64], 1.0)
    held = [number for number, letters in enumerate(stages) for _ in letters]
    return [Unit(unit.number, unit.items, unit.tag._replace(ordinal=unit.number, stage=stage))
            for unit, stage in zip(section.units, held, strict=True)]


def clocks(units: list[Unit], schedule: PingPong) -> int:
    """The ticks of a step in the schedule's order."""
    orders = schedule.orders([units], MACHINE)
    return PairClock(units, MACHINE).time([[unit.tag.ordinal for unit in stage] for stage in orders], [0] * len(orders))


@pytest.mark.parametrize(("stages", "expected"), [
    # Each stage of one group stands beside the other stage of the other group, so each of the two lasts as long as the longer one; a
    # barrier's release is 2 ticks.
    (("vvvv", "MMMM"), 2 * 4 * 8),  # cores never rest: the barrier passes while the last matrix unit runs
    (("v" * 60, "M"), 2 * (60 + 2 + 2)),  # nothing issues for the 2 ticks in which operands are read
    (("t" * 20, "v" * 20), (60 + 2) + (59 + 2)),  # one vector port, which v_exp_f32 holds beyond its issue where it is the last
    (("r", "v"), 2 * (LATENCY + 4 + 2))])  # four waves read 4 KB at 256 bytes a clk
def test_two_stages_side_by_side(stages: tuple[str, ...], expected: int) -> None:
    assert clocks(step(*stages), PingPong()) == expected


def test_reads_go_ahead_of_vector_work_where_their_data_are_waited_for() -> None:
    """Four reads among forty others end late; the stage with their latency is then the longer one."""
    units = step("r" + "v" * 40 + "rrr", "MM")
    even, placed = clocks(units, PingPong()), clocks(units, PlacedPingPong())
    assert placed < even
    memory, matrix = PlacedPingPong().orders([units], MACHINE)
    ahead = sorted(memory, key=lambda unit: unit.first.name != "ds_read_b128")
    assert placed <= PairClock(units, MACHINE).time([[unit.tag.ordinal for unit in stage] for stage in (ahead, matrix)], [0, 0])
    reads = [at for at, unit in enumerate(memory) if unit.first.name == "ds_read_b128"]
    assert reads[:3] == [0, 1, 2] and reads[3] + LATENCY + 4 <= len(memory), "the last one may stand where its data come in time"


def test_the_even_order_stays_where_none_is_shorter_and_dependences_hold() -> None:
    """A stage of matrix units that are never waited for; and vector work that reads what was loaded goes after it."""
    units = step("rvrv", "MMMMMMMM")
    assert PlacedPingPong().orders([units], MACHINE) == PingPong().orders([units], MACHINE)
    for order in (stage for stage in PlacedPingPong().orders([step("vvvvvvvvvv", "tMtMtM")], MACHINE)):
        written = [unit.first.operands[0] for unit in order if unit.first.name == "v_mfma_f32_32x32x16_bf16"]
        assert written == sorted(written, key=lambda reg: reg.index)
