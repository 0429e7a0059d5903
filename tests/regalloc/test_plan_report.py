"""The printed register plan and the register map."""

from __future__ import annotations

from asmgen.isa.registers import Reg, a, s, v, vcc
from asmgen.regalloc.plan import RegisterPlan
from asmgen.regalloc.ranges import Span
from asmgen.regalloc.report import MapColumn, MapRow, format_map, format_plan, map_rows


def small_plan() -> tuple[RegisterPlan, list[Span]]:
    clock = 0
    plan = RegisterPlan("gfx950", waves=2, position=lambda: clock)
    plan.pin("acc", a[0:63], "C tile")
    plan.pin("mask", vcc)
    k = plan.vgprs(16, "k")
    clock = 6
    plan.view("p", k[0:7], "scores in place")
    clock = 10
    plan.release(k)
    plan.vgprs(8, "z")
    clock = 15
    return plan, plan.spans(15)


def test_spans_by_position() -> None:
    plan, spans = small_plan()
    assert [(span.name, span.first, span.last) for span in spans] == [
        ("acc", 0, 14), ("mask", 0, 14), ("k", 0, 9), ("p", 6, 9), ("z", 10, 14)]
    plan.vgprs(1, "never"), plan.release("never")
    assert "never" not in [span.name for span in plan.spans(15)]


def test_printed_plan() -> None:
    lines = format_plan(small_plan()[0]).splitlines()
    assert lines[0] == ("register plan, gfx950: 16 VGPRs (AGPRs from 16 on) + 64 AGPRs = 80 of 256, 6 waves per SIMD (2 wanted); 0 SGPRs")
    assert [line.split()[:3] for line in lines[2:]] == [
        ["v[0:15]", "k", "pool"], ["v[0:7]", "p", "view"], ["v[0:7]", "z", "pool"], ["a[0:63]", "acc", "pin"], ["vcc", "mask", "pin"]]
    assert lines[3].endswith("view of 'k': scores in place") and lines[4].endswith("after 'k'") and lines[5].endswith("C tile")
    assert "to end of 'k'" in lines[3] and "to the end" in lines[4] and "to the end" not in lines[2]


def test_register_map_rows() -> None:
    regions = [MapColumn("prologue", 0, 4), MapColumn("loop", 5, 10), MapColumn("end", 11, 14)]
    rows = map_rows(small_plan()[1], regions)
    assert rows == [
        MapRow(v[0:7], (("k",), ("k", "p", "z"), ("z",))),
        MapRow(v[8:15], (("k",), ("k",), ())),
        MapRow(a[0:63], (("acc",), ("acc",), ("acc",))),
        MapRow(vcc, (("mask",), ("mask",), ("mask",))),
    ]
    assert format_map(small_plan()[1], regions) == (
        "         prologue  loop     end\n"
        "v[0:7]   k         k, p, z  z\n"
        "v[8:15]  k         k        .\n"
        "a[0:63]  acc       acc      acc\n"
        "vcc      mask      mask     mask\n")


def test_register_map_of_a_large_kernel_stays_narrow_and_complete() -> None:
    spans = [Span(Reg(file, index, 8), f"{file} tile number {index} of the accumulator", index % 12, 11 + index % 3)
             for file in "va" for index in range(0, 256, 8)]
    spans.append(Span(s[10:11], "far", 0, 14))
    text = format_map(spans, [MapColumn(f"region {i}", i, i) for i in range(15)])
    assert max(map(len, text.splitlines())) <= 100
    for i in range(15):
        assert f"region {i}" in text
    assert text.count("v[248:255]") == text.count("a[248:255]") > 1


def test_register_map_shortens_crowded_cells_and_shows_holes() -> None:
    spans = [Span(v[0], f"temporary_{i}", i, i) for i in range(9)] + [Span(v[4:5], "q", 0, 8)]
    text = format_map(spans, [MapColumn("all", 0, 8)])
    assert text == "        all\nv0      temporary_0 +8\nv[1:3]  .\nv[4:5]  q\n"


def test_register_map_leaves_out_what_nobody_can_hold() -> None:
    spans = [Span(s[0:1], "kernarg", 0, 9), Span(vcc, "mask", 0, 9), Span(v[0], "x", 0, 9), Span(v[9], "later", 5, 9)]
    assert [row.reg for row in map_rows(spans, [MapColumn("begin", 0, 4)])] == [v[0], s[0:1], vcc]
    assert map_rows(spans, []) == [] and format_map(spans, []) == ""
