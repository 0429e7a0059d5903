"""Register sets: several ranges and files under one name, in any order, pinned, pooled, viewed and shared."""

from __future__ import annotations

import random

import pytest

from asmgen.author.emit.builder import Builder
from asmgen.isa.operands import OFF
from asmgen.isa.registers import a, s, v
from asmgen.regalloc.plan import RegisterPlan
from asmgen.regalloc.ranges import OwnedReg, PlanError
from asmgen.regalloc.sets import RegisterSet, join, lease_of
from asmgen.regalloc.shortage import OutOfRegisters


def pinned(plan: RegisterPlan) -> RegisterSet:
    """As the best backward kernels hold K."""
    return plan.pin("K", (a[0:47], v[56:71]))


def test_items_follow_the_parts() -> None:
    keys = pinned(RegisterPlan("gfx950"))
    assert keys.count == len(keys) == 64 and str(keys) == "(a[0:47], v[56:71])"
    assert keys.items == tuple(a[number] for number in range(48)) + tuple(v[number] for number in range(56, 72))
    assert list(keys) == list(keys.items) and keys.mask == a[0:47].mask | v[56:71].mask
    assert keys[47] == a[47] and keys[48] == v[56] and keys[44:47] == a[44:47] and keys[60:63] == v[68:71]
    crossing = keys[46:49]
    assert isinstance(crossing, RegisterSet) and crossing.parts == (a[46:47], v[56:57])
    for wrong in (64, slice(60, 64), slice(-1, 2), slice(5, 4)):
        with pytest.raises(IndexError, match="numbered 0 to 63"):
            keys[wrong]


def test_an_operand_lies_within_one_range() -> None:
    keys = pinned(RegisterPlan("gfx950"))
    assert keys.operand(44, 4) == a[44:47] and keys.operand(48, 4) == v[56:59]
    with pytest.raises(PlanError, match=r"items 46 to 49 .* are \(a\[46:47\], v\[56:57\]\), which is no tuple of neighbours"):
        keys.operand(46, 4)


def test_a_set_is_held_and_released_whole() -> None:
    plan = RegisterPlan("gfx950")
    keys = pinned(plan)
    assert len({lease_of(part) for part in keys.parts}) == 2 and all(lease_of(item) is not None for item in keys)
    assert plan.resources().vgprs == 72 and plan.resources().agprs == 48
    assert plan.vgprs(8, "low") == v[0:7] and plan.agprs(2, "next") == a[48:49]
    for clash in (a[40:50], v[71:72]):
        with pytest.raises(PlanError, match="overlaps 'K'"):
            plan.pin("other", clash)
    with pytest.raises(PlanError, match="a live range is named 'K' already"):
        plan.pin("K", s[0:1])
    plan.release(keys)
    assert plan.pin("other", a[40:47]) == a[40:47]
    with pytest.raises(PlanError, match="used after its release: it was 'K'"):
        plan.check(keys.operand(0, 4))
    again = RegisterPlan("gfx950")
    pinned(again)
    again.release("K")
    assert again.live() == []


def test_a_set_that_does_not_fit_leaves_nothing_behind() -> None:
    plan = RegisterPlan("gfx950")
    plan.pin("in the way", v[60:61])
    with pytest.raises(PlanError, match="'K' at v\\[56:71\\] overlaps 'in the way'"):
        pinned(plan)
    assert [held.name for held in plan.live()] == ["in the way"]
    assert plan.pin("a", a[0:47]) == a[0:47]
    with pytest.raises(PlanError, match="without a register"):
        plan.pin("empty", ())
    with pytest.raises(PlanError, match="overlaps 'twice'"):
        plan.pin("twice", (v[0:3], v[2:5]))


def test_a_reordered_view_is_the_same_registers() -> None:
    plan = RegisterPlan("gfx950")
    keys = plan.pin("K", (a[0:3], v[8:11]))
    order = [4, 5, 0, 1, 6, 7, 2, 3]
    turned = plan.view("KT", keys.reordered(order))
    assert turned.items == tuple(keys.items[number] for number in order) and turned.mask == keys.mask
    assert turned.parts == (v[8:9], a[0:1], v[10:11], a[2:3])
    assert all(isinstance(part, OwnedReg) and part.lease not in {lease_of(held) for held in keys.parts} for part in turned.parts)
    back = turned.reordered([order.index(number) for number in range(8)])
    assert back.items == keys.items
    for wrong in ([0, 1], [0] * 8, list(range(1, 9))):
        with pytest.raises(PlanError, match="permutation of 0 to 7"):
            keys.reordered(wrong)
    plan.release("K")  # its views end with it
    assert plan.live() == []


@pytest.mark.parametrize("seed", range(20))
def test_reordering_twice_composes(seed: int) -> None:
    pick = random.Random(seed)
    plan = RegisterPlan("gfx950")
    held = plan.pin("set", (v[0:4], a[2:5], s[4:6]))
    first, second = (pick.sample(range(12), 12) for _ in range(2))
    twice = held.reordered(first).reordered(second)
    assert twice.items == held.reordered([first[number] for number in second]).items
    assert sorted(str(item) for item in twice) == sorted(str(item) for item in held)
    assert all(one.last + 1 != two.index or one.file != two.file or lease_of(one) != lease_of(two)
               for one, two in zip(twice.parts, twice.parts[1:], strict=False))


def test_join_keeps_leases_apart() -> None:
    plan = RegisterPlan("gfx950")
    one, two = plan.pin("one", v[0:1]), plan.pin("two", v[2:3])
    assert join([one[0], one[1], two[0], two[1]]) == (v[0:1], v[2:3])
    assert [lease_of(part) for part in join([one[0], one[1], two])] == [one.lease, two.lease]
    assert join([v[0], v[1], v[3], v[2], a[3]]) == (v[0:1], v[3], v[2], a[3])


def test_pooled_takes_what_holes_there_are() -> None:
    plan = RegisterPlan("gfx950")
    plan.pin("middle", v[4:9])
    held = plan.pooled("fragments", 12, granule=4)
    assert held.parts == (v[0:3], v[10:17])
    assert plan.pooled("more", 4, "a", granule=2).parts[0].file == "a"
    plan.release(held)
    assert plan.vgprs(4, "free again") == v[0:3]
    for count, file, granule in ((6, "v", 4), (0, "v", 1), (4, "x", 1)):
        with pytest.raises(PlanError, match="the count is a multiple of the run"):
            plan.pooled("odd", count, file, granule)
    with pytest.raises(OutOfRegisters):
        plan.pooled("much", 512)
    assert "much" not in {held.name for held in plan.live()}


def test_a_share_of_a_set_is_another_owner_of_it() -> None:
    plan = RegisterPlan("gfx950")
    keys = pinned(plan)
    guest = plan.share("guest", keys)
    assert guest.items == keys.items and {held.kind for held in plan.live()} == {"pin", "share"}
    assert [held.parents for held in plan.live() if held.kind == "share"] == [(lease_of(part),) for part in keys.parts]
    plan.check(guest.operand(50, 2))
    plan.release(guest)
    with pytest.raises(PlanError, match="'guest'"):
        plan.check(guest.operand(50, 2))
    plan.check(keys.operand(50, 2))


def test_a_builder_takes_operands_of_a_set() -> None:
    plan = RegisterPlan("gfx950")
    k = Builder("k", "gfx950", plan)
    keys = pinned(plan)
    address = plan.vgprs(2, "address")
    for number in range(0, 64, 4):
        k.global_load_dwordx4(keys.operand(number, 4), address, OFF, offset=4 * number)
    assert k.program().instructions[11].text == "global_load_dwordx4 a[44:47], v[0:1], off offset:176"
    assert k.program().instructions[12].text == "global_load_dwordx4 v[56:59], v[0:1], off offset:192"
    plan.release(keys)
    with pytest.raises(PlanError, match="used after its release"):
        k.v_mov_b32(address[0], keys.operand(48, 1))
