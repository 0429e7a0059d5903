"""The register plan: what it hands out, what it refuses, what it says, and that its offered fixes work."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asmgen.isa.registers import Reg, a, exec_, m0, s, scc, v, vcc
from asmgen.regalloc.plan import RegisterPlan
from asmgen.regalloc.pool import PlanResources
from asmgen.regalloc.ranges import OwnedReg, PlanError, shown_file
from asmgen.regalloc.shortage import OutOfRegisters

HERE = shown_file(__file__, "", os.getcwd())
"""How places name this file."""


def error_of(action: Callable[[], object]) -> PlanError:
    with pytest.raises(PlanError) as caught:
        action()
    return caught.value


# ---- what is handed out ----


def test_owned_registers_are_operands_like_plain_ones() -> None:
    plan = RegisterPlan("gfx950")
    q = plan.vgprs(8, "q")
    assert q == v[0:7] and v[0:7] == q and q != v[0:6] and q != a[0:7]
    assert hash(q) == hash(v[0:7]) and {v[0:7]: "x"}[q] == "x"
    assert str(q) == "v[0:7]" and str(q[3]) == "v3" and q.mask == 0xFF
    part = q[2:5][1]
    assert isinstance(part, OwnedReg) and part == v[3] and part.lease == q.lease
    with pytest.raises(IndexError):
        q[8]


def test_default_alignment_by_file_and_size() -> None:
    plan = RegisterPlan("gfx942")
    assert plan.vgprs(1, "v one") == v[0]
    assert plan.vgprs(3, "v three") == v[2:4]
    assert plan.vgprs(1, "fills the hole") == v[1]
    assert plan.vgprs(2, "v two") == v[6:7]
    assert plan.vgprs(3, "packed", align=1) == Reg("v", 8, 3)
    assert plan.agprs(1, "a one") == a[0] and plan.agprs(2, "a two") == a[2:3]
    assert plan.sgprs(1, "s one") == s[0]
    assert plan.sgprs(2, "s two") == s[2:3]
    assert plan.sgprs(3, "s three") == Reg("s", 4, 3)
    assert plan.sgprs(8, "s eight") == s[8:15]
    assert plan.vgprs(4, "own size", align=16) == v[16:19]


def test_what_is_left_of_a_file() -> None:
    plan = RegisterPlan("gfx950", 1)
    before = plan.left("a"), plan.left("v")
    plan.agprs(12, "held")
    assert (plan.left("a"), plan.left("v")) == (before[0] - 12, before[1])
    plan.release("held")
    assert (plan.left("a"), plan.left("v")) == before == (256, 256)


def test_pool_avoids_pins_and_reuses_the_lowest_hole() -> None:
    plan = RegisterPlan("gfx950")
    plan.pin("low", v[4:7])
    assert plan.vgprs(6, "six") == v[8:13]
    assert plan.vgprs(4, "four") == v[0:3]
    plan.release("low")
    assert plan.vgprs(2, "two") == v[4:5]


def test_resources_of_the_unified_file() -> None:
    plan = RegisterPlan("gfx950")
    assert plan.resources() == PlanResources(0, 0, 0, 4, 0, 8)
    plan.vgprs(65, "x")
    # 65 registers are allocated as 72: 7 waves per SIMD (docs/facts/instructions.md section 5).
    assert plan.resources() == PlanResources(65, 0, 0, 68, 65, 7)
    plan.agprs(30, "acc")
    assert plan.resources() == PlanResources(65, 30, 0, 68, 98, 4)
    plan.release("x", "acc")
    plan.pin("vcc", vcc)
    plan.pin("kernarg", s[6:7])
    # High-water marks outlive a release, and special registers are no SGPRs of the kernel.
    assert plan.resources() == PlanResources(65, 30, 8, 68, 98, 4)


def test_agprs_alone_begin_behind_four_vgprs() -> None:
    plan = RegisterPlan("gfx942")
    plan.agprs(128, "acc")
    assert plan.resources() == PlanResources(0, 128, 0, 4, 132, 3)


# ---- what is refused ----


def test_use_after_release_names_holder_and_lines() -> None:
    plan = RegisterPlan("gfx950")
    k = plan.vgprs(16, "k")
    plan.check(k[3])
    plan.release(k)
    error = error_of(lambda: plan.check(k[3]))
    assert error.where.startswith(HERE)
    assert "'k'" in error.sentence and "released" in error.sentence and "since" not in error.sentence


def test_stale_register_is_told_from_the_next_owner() -> None:
    plan = RegisterPlan("gfx950")
    k = plan.vgprs(16, "k")
    plan.release("k")
    p = plan.vgprs(4, "p")
    plan.check(p)
    plan.check(v[0:3])
    assert plan.owner(p[1]).name == "p" and plan.owner(v[2]).name == "p" and plan.owner(k[2]) is None
    assert "'p' holds it since" in error_of(lambda: plan.check(k[2], "kernel.py:7")).sentence
    assert error_of(lambda: plan.check(k[2], "kernel.py:7")).where == "kernel.py:7"
    # The same name again is another lease.
    plan.release("p")
    plan.vgprs(4, "p")
    assert "used after its release" in str(error_of(lambda: plan.check(p)))


def test_register_of_nobody() -> None:
    plan = RegisterPlan("gfx950")
    plan.vgprs(4, "q")
    assert "v4 of v[2:5]" in error_of(lambda: plan.check(v[2:5])).sentence
    assert "s9" in error_of(lambda: plan.check(s[9])).sentence
    for special in (vcc, exec_, m0, scc):
        plan.check(special)
        assert plan.owner(special) is None
    plan.release("q")
    assert "'q' held it until" in error_of(lambda: plan.check(v[1])).sentence


def test_plain_register_across_two_ranges_is_held() -> None:
    plan = RegisterPlan("gfx950")
    plan.vgprs(4, "lo"), plan.vgprs(4, "hi")
    plan.check(v[2:5])
    assert plan.owner(v[2:5]).name == "lo"


def test_overlapping_pins() -> None:
    plan = RegisterPlan("gfx950")
    plan.pin("q", v[24:39])
    plan.pin("same numbers, other file", a[24:39])
    plan.pin("neighbour", v[40:41])
    error = error_of(lambda: plan.pin("k", v[39:46]))
    assert "'q'" in error.sentence and "plan.view('k'" in error.sentence
    plan.release("q", "neighbour")
    plan.pin("k", v[39:46])
    plan.pin("carry", vcc)
    assert "'carry'" in error_of(lambda: plan.pin("mask", Reg("s", 107))).sentence


@pytest.mark.parametrize("reg", [Reg("v", 255, 2), Reg("s", 101, 2), Reg("s", 127, 2), Reg("scc", 0, 2), Reg("a", -1), Reg("x", 0)])
def test_pin_outside_of_a_file(reg: Reg) -> None:
    assert "not inside one register file" in error_of(lambda: RegisterPlan("gfx950").pin("x", reg)).sentence


def test_wrong_requests() -> None:
    plan = RegisterPlan("gfx950")
    plan.vgprs(1, "x")
    assert "named 'x' already" in error_of(lambda: plan.sgprs(1, "x")).sentence
    assert "needs a name" in error_of(lambda: plan.sgprs(1, "")).sentence
    assert "asks for 0" in error_of(lambda: plan.vgprs(0, "none")).sentence
    assert "alignment of 3" in error_of(lambda: plan.vgprs(4, "y", align=3)).sentence
    assert "multiple of 4" in error_of(lambda: plan.pin("y", v[6:9], align=4)).sentence
    assert "no range is named 'y'" in error_of(lambda: plan.release("y")).sentence
    assert "released whole" in error_of(lambda: plan.release(plan.vgprs(4, "wide")[0:1])).sentence
    plan.release("x")
    assert "released already" in error_of(lambda: plan.release("x")).sentence
    assert "gfx90a" in str(error_of(lambda: RegisterPlan("gfx90a")))
    assert "9" in str(error_of(lambda: RegisterPlan("gfx950", waves=9)))


def test_register_of_another_plan() -> None:
    one, other = RegisterPlan("gfx950"), RegisterPlan("gfx950")
    other.vgprs(2, "x")
    foreign = one.vgprs(2, "low"), one.vgprs(2, "high")
    assert "another register plan" in error_of(lambda: other.check(foreign[1])).sentence
    wide = one.vgprs(1, "x"), RegisterPlan("gfx950").vgprs(4, "first lease, but wider")
    assert "another register plan" in error_of(lambda: other.check(wide[1])).sentence


# ---- views and scopes ----


def test_views_share_on_purpose_and_end_with_their_range() -> None:
    plan = RegisterPlan("gfx950")
    k = plan.vgprs(16, "k")
    p = plan.view("p", k[4:11], "spent by then")
    pp = plan.view("pp", p[0:1])
    assert p == v[4:11] and plan.owner(p).name == "p" and plan.owner(v[4]).name == "pp" and plan.owner(v[12]).name == "k"
    plan.release(pp)
    plan.check(p), plan.check(k)
    plan.view("pp", p[2])
    plan.release(v[0:15])
    assert "end of 'k', which it was a view of" in error_of(lambda: plan.check(p)).sentence
    assert not plan.live()


def test_plain_registers_release_the_range_rather_than_its_view() -> None:
    plan = RegisterPlan("gfx950")
    plan.view("same extent", plan.vgprs(4, "k"))
    plan.release(v[0:3])
    assert not plan.live()


def test_view_over_two_ranges_ends_with_the_first() -> None:
    plan = RegisterPlan("gfx950")
    lo, hi = plan.vgprs(4, "lo"), plan.vgprs(4, "hi")
    both = plan.view("both", v[0:7])
    plan.release(hi)
    plan.check(lo)
    assert error_of(lambda: plan.check(both[0]))


def test_views_need_something_to_look_into() -> None:
    plan = RegisterPlan("gfx950")
    k = plan.vgprs(4, "k")
    assert "v4" in error_of(lambda: plan.view("p", v[2:5])).sentence
    assert "plan.pin" in error_of(lambda: plan.view("p", vcc)).sentence
    plan.release(k)
    assert "used after its release" in error_of(lambda: plan.view("p", k)).sentence


def test_scope_releases_what_was_taken_within() -> None:
    plan = RegisterPlan("gfx950")
    outer = plan.vgprs(2, "outer")
    with plan.scope("epilogue"):
        inner = plan.vgprs(2, "inner")
        plan.view("look", inner[0])
        plan.view("through", outer[0])
        plan.vgprs(1, "early")
        plan.release("early")
        with plan.scope("store"):
            plan.sgprs(2, "offset")
        assert [r.name for r in plan.live()] == ["outer", "inner", "look", "through"]
    assert [r.name for r in plan.live()] == ["outer"]
    assert "end of scope 'epilogue'" in error_of(lambda: plan.check(inner)).sentence
    with pytest.raises(KeyError), plan.scope("fails"):
        plan.vgprs(1, "x")
        raise KeyError("the author's own error goes through")
    assert [r.name for r in plan.live()] == ["outer"]


def test_author_line_is_the_calling_line() -> None:
    plan = RegisterPlan("gfx950")
    plan.vgprs(1, "x")
    with plan.scope("here"):
        plan.vgprs(1, "y")
    first = test_author_line_is_the_calling_line.__code__.co_firstlineno
    x, y = plan.ranges
    assert x.taken == f"{HERE}:{first + 2}" and y.taken == f"{HERE}:{first + 4}" and y.released == f"{HERE}:{first + 3}"


def test_author_line_looks_through_asmgen_but_not_through_its_kernels() -> None:
    def taken_by(module: str) -> str:
        plan = RegisterPlan("gfx950")
        code = compile("\n\ndef take(plan):\n    plan.vgprs(1, 'x')\n", "inner.py", "exec")
        names: dict[str, object] = {"__name__": module}
        exec(code, names)
        names["take"](plan)  # type: ignore[operator]
        return plan.ranges[0].taken

    assert taken_by("asmgen.author.emit.builder").startswith(HERE)
    assert taken_by("asmgen.kernels.gemm") == "asmgen/kernels/gemm.py:4"
    assert taken_by("asmgenius") == "inner.py:4"


# ---- running out ----


def test_message_of_a_shortage() -> None:
    plan = RegisterPlan("gfx950", waves=4)
    for i in range(8):
        plan.vgprs(16, f"b{i}")
    plan.release("b1", "b4")
    plan.vgprs(2, "tiny")
    error = error_of(lambda: plan.vgprs(20, "tile"))
    assert isinstance(error, OutOfRegisters)
    assert error.hole == v[64:79] and [(fix.action, fix.names) for fix in error.fixes] == [("release", ("b2",)), ("waves", ())]
    for part in ("'tile' needs 20 VGPRs", "v[64:79] (16)", "30 of 128 are free", "'b0' v[0:15] (16, line", "148 registers in all: 3 waves",
                 "168 registers", "ask for 3 waves"):
        assert part in error.sentence, part


def test_shortage_that_fewer_waves_cannot_mend() -> None:
    plan = RegisterPlan("gfx942")
    plan.vgprs(250, "big")
    error = error_of(lambda: plan.vgprs(10, "more"))
    assert isinstance(error, OutOfRegisters) and [fix.action for fix in error.fixes] == ["other file", "move", "release"]
    assert "No occupancy step helps" in error.sentence


def test_pin_beyond_the_wanted_occupancy() -> None:
    plan = RegisterPlan("gfx950", waves=4)
    plan.pin("last", v[127])
    error = error_of(lambda: plan.pin("beyond", v[127:128][1]))
    assert isinstance(error, OutOfRegisters) and [(fix.action, fix.waves) for fix in error.fixes] == [("waves", 3)]
    plan = RegisterPlan("gfx950", waves=2)
    plan.pin("acc", a[0:127])
    plan.pin("fits", v[127])
    # The 129th VGPR would move accum_offset to 132, and 132 + 128 is more than 256.
    assert isinstance(error_of(lambda: plan.pin("too many", v[128])), OutOfRegisters)


def test_halves_of_the_unified_file_meet_at_a_multiple_of_four() -> None:
    plan = RegisterPlan("gfx950", waves=2)
    plan.agprs(30, "acc")
    # accum_offset 224 + 30 fits into 256, accum_offset 228 + 30 does not.
    plan.vgprs(224, "most")
    assert isinstance(error_of(lambda: plan.vgprs(1, "more")), OutOfRegisters)
    plan = RegisterPlan("gfx950", waves=2)
    plan.vgprs(225, "most")
    plan.agprs(28, "acc")
    assert plan.resources().total == 256
    assert isinstance(error_of(lambda: plan.agprs(1, "more")), OutOfRegisters)


def test_smallest_range_is_moved() -> None:
    plan = RegisterPlan("gfx950")
    for name, count in (("large", 128), ("small", 32), ("middle", 96)):
        plan.vgprs(count, name)
    plan.agprs(100, "acc")
    error = error_of(lambda: plan.vgprs(24, "more"))
    assert isinstance(error, OutOfRegisters)
    assert [(fix.action, fix.names) for fix in error.fixes] == [("other file", ()), ("move", ("small",)), ("release", ("small",))]


def test_sgprs_end_at_s101() -> None:
    plan = RegisterPlan("gfx950")
    plan.pin("carry", vcc)
    plan.sgprs(100, "most")
    assert plan.sgprs(2, "rest") == s[100:101]
    error = error_of(lambda: plan.sgprs(1, "more"))
    assert isinstance(error, OutOfRegisters) and error.hole is None and "carry" not in error.sentence
    assert [fix.names for fix in error.fixes] == [("rest",)]


# ---- properties ----

WAVE_LIMITS = {None: 512, 1: 512, 2: 256, 3: 168, 4: 128, 5: 96, 6: 80, 7: 72, 8: 64}  # docs/facts/instructions.md section 5
SIZES = {"v": 256, "a": 256, "s": 102}


@dataclass
class Model:
    """The plan's rules a second time, with sets of numbers and no cleverness."""

    waves: int | None
    held: dict[str, set[tuple[str, int]]] = field(default_factory=dict)
    ever: set[tuple[str, int]] = field(default_factory=set)

    def legal(self, regs: set[tuple[str, int]]) -> bool:
        if any(regs & other for other in self.held.values()):
            return False
        if all(file == "s" and 102 <= index < 128 for file, index in regs):
            return True  # vcc and its like, in no pool
        if any(index >= SIZES[file] for file, index in regs):
            return False
        top = {file: max((i + 1 for f, i in self.ever | regs if f == file), default=0) for file in "va"}
        offset = max(4, (top["v"] + 3) // 4 * 4)
        return all(file == "s" for file, _ in regs) or (offset + top["a"] if top["a"] else top["v"]) <= WAVE_LIMITS[self.waves]

    def lowest(self, file: str, count: int, align: int) -> int | None:
        fitting = (start for start in range(0, SIZES[file], align) if self.legal({(file, start + i) for i in range(count)}))
        return next(fitting, None)


operations = st.lists(st.one_of(
    st.tuples(st.just("take"), st.sampled_from("vvaas"), st.integers(1, 70), st.sampled_from([None, None, 1, 2, 4, 8])),
    st.tuples(st.just("pin"), st.sampled_from("vas"), st.integers(0, 110), st.integers(1, 24)),
    st.tuples(st.just("release"), st.integers(0, 50)),
    st.tuples(st.just("view"), st.integers(0, 50), st.integers(0, 7), st.integers(0, 7)),
), min_size=1, max_size=30)


def take(plan: RegisterPlan, file: str, count: int, name: str, align: int | None) -> OwnedReg:
    return {"v": plan.vgprs, "a": plan.agprs, "s": plan.sgprs}[file](count, name, align)


def check_fixes(plan_again: Callable[[int | None], RegisterPlan], waves: int | None, error: OutOfRegisters) -> None:
    """Each offered fix, applied to the same plan, lets the request through."""
    want = error.request
    for fix in error.fixes:
        plan = plan_again(fix.waves if fix.action == "waves" else waves)
        file = {"v": "a", "a": "v"}.get(want.file, want.file) if fix.action == "other file" else want.file
        if fix.action in ("move", "release"):
            counts = [r.reg.count for r in plan.live() if r.name in fix.names]
            assert len(counts) == len(fix.names) >= 1
            plan.release(*fix.names)
            if fix.action == "move":
                take(plan, {"v": "a", "a": "v"}[want.file], counts[0], "moved", None)
        if want.reg is not None:
            plan.pin(want.name, want.reg)
        else:
            take(plan, file, want.count, want.name, want.align)


@pytest.mark.slow
@settings(max_examples=250, deadline=None, derandomize=True)
@given(waves=st.sampled_from([None, 1, 2, 3, 5, 8]), steps=operations)
def test_random_plans_against_the_model(waves: int | None, steps: list[tuple]) -> None:  # type: ignore[type-arg]
    plan, model = RegisterPlan("gfx950", waves), Model(waves)
    leases: dict[str, OwnedReg] = {}
    stale: list[OwnedReg] = []
    views: dict[str, str] = {}
    history: list[Callable[[RegisterPlan], object]] = []

    def again(waves: int | None) -> RegisterPlan:
        copy = RegisterPlan("gfx950", waves)
        for action in history:
            action(copy)
        return copy

    def do(action: Callable[[RegisterPlan], OwnedReg], name: str) -> OwnedReg:
        leases[name] = action(plan)
        history.append(action)
        return leases[name]

    for number, step in enumerate(steps):
        name = f"n{number}"
        if step[0] == "take":
            _, file, count, align = step
            real_align = align or (1 if count == 1 else 4 if file == "s" and count > 2 else 2)
            start = model.lowest(file, count, real_align)
            if start is None:
                error = error_of(lambda: take(plan, file, count, name, align))  # noqa: B023
                assert isinstance(error, OutOfRegisters)
                size = error.hole.count if error.hole is not None else 0
                assert size < count and model.lowest(file, size + 1, real_align) is None
                assert error.hole is None or error.hole == Reg(file, model.lowest(file, size, real_align), size)
                check_fixes(again, waves, error)
                continue
            reg = do(lambda p, f=file, c=count, n=name, al=align: take(p, f, c, n, al), name)  # type: ignore[misc]
            assert reg == Reg(file, start, count) and reg.index % real_align == 0
            model.held[name] = {(file, start + i) for i in range(count)}
            model.ever |= model.held[name]
        elif step[0] == "pin":
            reg = Reg(*step[1:])
            numbers = {(reg.file, i) for i in range(reg.index, reg.last + 1)}
            if not model.legal(numbers):
                error = error_of(lambda: plan.pin(name, reg))  # noqa: B023
                if isinstance(error, OutOfRegisters):
                    check_fixes(again, waves, error)
                continue
            do(lambda p, r=reg, n=name: p.pin(n, r), name)  # type: ignore[misc]
            model.held[name] = numbers
            model.ever |= numbers
        elif leases:
            victim = sorted(leases)[step[1] % len(leases)]
            if step[0] == "view":
                low, high = sorted(i % leases[victim].count for i in step[2:])
                do(lambda p, n=name, o=victim, lo=low, hi=high:  # type: ignore[misc]
                   p.view(n, next(r.reg for r in p.live() if r.name == o)[lo:hi]), name)
                views[name] = victim
                continue
            plan.release(victim)
            history.append(lambda p, n=victim: p.release(n))  # type: ignore[misc]
            gone = {victim}
            while more := {view for view, parent in views.items() if parent in gone and view in leases} - gone:
                gone |= more
            for each in gone:
                stale.append(leases.pop(each))
                model.held.pop(each, None)
        for old in stale:
            assert plan.owner(old) is None
            error_of(lambda: plan.check(old))  # noqa: B023
        for name, reg in leases.items():
            plan.check(reg)
            assert plan.owner(reg[0]).name == name
    owned = [(r.reg.file, i) for r in plan.live() if r.owns for i in range(r.reg.index, r.reg.last + 1)]
    assert len(owned) == len(set(owned)) and set(owned) == set().union(*model.held.values())
    used = plan.resources()
    assert (used.vgprs, used.agprs, used.sgprs) == tuple(
        max((i + 1 for f, i in model.ever if f == file and i < SIZES[f]), default=0) for file in "vas")
    assert used.total <= WAVE_LIMITS[waves] and (waves is None or used.waves_per_simd >= waves)


def test_spare_ranges_end_where_others_find_no_place() -> None:
    plan = RegisterPlan("gfx950")
    kept, first, second = plan.vgprs(64, "kept"), plan.vgprs(64, "first"), plan.vgprs(64, "second")
    plan.spare(first, at_need=True)
    plan.spare(second, at_need=True)
    plan.spare(kept)
    assert plan.vgprs(64, "other") == v[192:255] and plan.holds(first)
    assert plan.has(128, "v") and plan.vgprs(32, "more") == first[0:31] and plan.holds(second) and plan.holds(kept)
    sentence = str(error_of(lambda: plan.check(first)))
    assert "'first'" in sentence and "the taking of 'more', for which no register was free" in sentence
    plan.keep(second)
    assert not plan.has(64, "v") and isinstance(error_of(lambda: plan.pooled("runs", 64, granule=4)), OutOfRegisters)
    plan.end_spare()
    assert not plan.holds(kept) and plan.holds(second)
