"""Loops that different waves go round at the same time are timed together; loops of all waves, one after the other, are not."""

from __future__ import annotations

import pytest

from asmgen.checks.lint.facts import KernelFacts
from asmgen.reader.assembly import read_text
from asmgen.tools.diff_command import compare
from asmgen.tools.inspection.htmlreport import inspection_html
from asmgen.tools.inspection.inspection import FileReport, KernelReport, inspect_program
from asmgen.tools.inspection.looptimeline import LoopTimeline, loop_timeline

PRODUCTS = "".join(f"v_mfma_f32_32x32x16_bf16 a[{n}:{n + 15}], v[4:7], v[8:11], a[{n}:{n + 15}]\n" for n in range(0, 128, 16))
LOADS = "ds_read_b128 v[4:7], v12\nds_read_b128 v[8:11], v12 offset:64\nglobal_load_dwordx4 v[40:43], v[2:3], off\n"
ROUND = f"{PRODUCTS}s_barrier\n{LOADS}s_waitcnt lgkmcnt(0)\ns_barrier\n"
WAVE = "v_lshrrev_b32 v30, 6, v0\nv_readfirstlane_b32 s8, v30\ns_cmp_lt_u32 s8, 4\n"
UNKNOWN = ("v_lshrrev_b32 v30, 6, v0\nv_cvt_f32_u32 v30, v30\nv_cvt_u32_f32 v30, v30\nv_readfirstlane_b32 s8, v30\n"
           "s_cmp_lt_u32 s8, 4\n")
LOADED = "v_readfirstlane_b32 s8, v0\ns_load_dword s8, s[2:3], s8\ns_waitcnt lgkmcnt(0)\ns_cmp_lt_u32 s8, 4\n"
ARGUMENT = "s_load_dword s8, s[0:1], 0\ns_waitcnt lgkmcnt(0)\ns_cmp_lt_u32 s8, 4\n"


def loop(name: str, body: str) -> str:
    return f"{name}:\n{body}s_sub_u32 s20, s20, 1\ns_cmp_lg_u32 s20, 0\ns_cbranch_scc1 {name}\n"


def kernel(text: str, block: bool = True) -> KernelReport:
    return inspect_program(read_text(f"{text}s_endpgm\n", "gfx950")[0], None, metadata={".max_flat_workgroup_size": 512},
                           facts=KernelFacts(block=(512, 1, 1) if block else None))


def shown(text: str, block: bool = True) -> LoopTimeline:
    found = loop_timeline(kernel(text, block))
    assert found is not None
    return found


def two_copies(before: str, mine: str = ROUND, its: str = ROUND, shift: str = "s_barrier\n") -> str:
    """Waves below 4 go round A, the others, a barrier behind them, round B."""
    return f"{before}s_cbranch_scc0 high\n{loop('A', mine)}s_branch end\nhigh:\n{shift}{loop('B', its)}end:\n"


ONE_COPY = f"{WAVE}s_cbranch_scc1 A\ns_barrier\n{loop('A', ROUND)}"


@pytest.mark.parametrize("before,block", [(WAVE, True), (WAVE, False), (UNKNOWN, True)], ids=["known", "no block", "floats"])
def test_two_copies_of_a_loop_are_timed_as_the_one_copy_is(before: str, block: bool) -> None:
    """While half of the waves multiply the other half load: one loop alone leaves a third idle, both together leave little."""
    found, one = shown(two_copies(before), block), shown(ONE_COPY)
    assert len(found.profile.timeline.waves) == 8 and len(found.sisters) == 1
    low, high = found.profile.loops
    assert low.waves == high.waves == 4 and low.cycles == high.cycles == one.profile.loops[0].cycles
    assert low.matrix_busy == pytest.approx(one.profile.loops[0].matrix_busy) and low.matrix_busy > 0.9
    alone = shown(f"{WAVE}s_cbranch_scc0 end\n{loop('A', ROUND)}end:\n")
    assert alone.profile.loops[0].matrix_busy < 0.7
    assert f"waves 4 to 7 go round instructions {high.first} to {high.last} meanwhile" in found.assumed
    assert ("a guess" in found.assumed) == (before == UNKNOWN or not block)


def test_a_loop_around_both_goes_round_with_them() -> None:
    """Persistent workgroups: behind the end of a tile both sides come to both loops again."""
    found = shown(f"tiles:\n{two_copies(WAVE)}s_sub_u32 s21, s21, 1\ns_cmp_lg_u32 s21, 0\ns_cbranch_scc1 tiles\n")
    assert len(found.sisters) == 1 and found.profile.loops[-1].matrix_busy > 0.9


@pytest.mark.parametrize("text", [
    f"{WAVE}{loop('A', ROUND)}{loop('B', ROUND)}",  # all waves, one after the other
    two_copies(ARGUMENT),  # the same way for all waves
    two_copies(LOADED),  # data decides, which most often is the same for all
    two_copies(UNKNOWN, ROUND, PRODUCTS),  # not known, and barriers that do not meet
    f"{WAVE}s_cbranch_scc0 middle\n{loop('A', ROUND)}middle:\ns_barrier\n{WAVE}s_cbranch_scc1 end\n{loop('B', ROUND)}end:\n",  # in turns
    two_copies(WAVE, ROUND, PRODUCTS)], ids=["sequence", "argument", "loaded", "other barriers", "turns", "no barriers"])
def test_loops_that_do_not_run_together_stay_apart(text: str) -> None:
    found = shown(text)
    assert found.sisters == () and len(found.profile.loops) == 1 and "meanwhile" not in found.assumed


def test_waves_that_part_in_the_loop_go_their_own_ways() -> None:
    """One loop of all waves: half of them multiply first, the others load first."""
    parted = (f"s_cmp_lt_u32 s8, 4\ns_cbranch_scc0 late\n{PRODUCTS}s_barrier\n{LOADS}s_barrier\ns_branch both\n"
              f"late:\n{LOADS}s_barrier\n{PRODUCTS}s_barrier\nboth:\n")
    found, alike = shown(f"{WAVE}{loop('A', parted)}"), shown(f"{WAVE}{loop('A', ROUND)}")
    (apart,), (together,) = found.profile.loops, alike.profile.loops
    assert apart.waves == 8 and found.sisters == () and "waves 4 to 7 go their own way in it" in found.assumed
    assert apart.matrix_busy > together.matrix_busy + 0.1


def test_of_loops_on_the_other_side_the_like_one_counts() -> None:
    """Waves 4 to 7 have a loop with masks too, as long in products and longer in code."""
    masked = ROUND.replace("s_nop 15\n", "v_mov_b32 v50, v51\n" * 40, 1)
    text = two_copies(WAVE).replace("end:\n", f"{loop('C', masked)}end:\n")
    found = shown(text)
    assert [one.first for one in found.sisters] == [found.profile.loops[1].first] and len(found.profile.loops) == 2


def test_a_producer_with_more_barriers_a_round_keeps_step() -> None:
    """Two barriers a round meet one of the consumers': half as many rounds, each twice as long."""
    found = shown(two_copies(WAVE, f"{PRODUCTS}s_barrier\n", f"{LOADS}s_barrier\n" * 2, ""))
    consumer, producer = found.profile.loops
    assert found.loop.first == consumer.first and found.sisters[0].first == producer.first
    assert producer.cycles == pytest.approx(2 * consumer.cycles, rel=0.02) and consumer.steady and producer.steady


def test_a_loop_with_far_more_barriers_bounds_nobody() -> None:
    found = shown(two_copies(WAVE, f"{PRODUCTS}s_barrier\n", "s_barrier\n" * 500, ""))
    assert max(len(wave.positions) for wave in found.profile.timeline.waves) < 600


def test_page_and_diff_show_both_loops_as_predicted() -> None:
    report = kernel(two_copies(WAVE))
    page = inspection_html(FileReport("f.s", "gfx950", (report,)), [loop_timeline(report)])
    assert "meanwhile" in page and "Main loop, predicted" in page and page.count("wave 7 (SIMD 3)") == 1
    pair = compare(report, kernel(ONE_COPY))
    busy = [row.figures[0].get("predicted.matrix_busy", 0) for row in pair.loops]
    assert len(busy) == 2 and min(busy) > 0.9 and pair.loops[0].figures[1]["predicted.matrix_busy"] == busy[0]
