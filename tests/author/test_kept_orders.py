"""Orders kept beside a kernel's file: taken where step and timing table are the same, else left with a remark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from asmgen.author.schedule.givenup import given_up
from asmgen.author.schedule.keptorders import chosen_by, orders_file, read_orders, with_order
from asmgen.author.schedule.schedules import Arrangement, Sync
from asmgen.author.schedule.stepdigest import step_digest
from asmgen.author.schedule.stepfacts import StepFacts
from asmgen.author.schedule.stepscheduler import Modulo, proposals
from asmgen.author.schedule.unitcosts import StepMachine
from asmgen.isa.errors import AsmgenError
from tests.author.test_modulo import MACHINE, units

CODE = ("v_mfma_f32_16x16x32_bf16 a[0:3], v[0:3], v[4:7], a[0:3]\nv_mfma_f32_16x16x32_bf16 a[4:7], v[0:3], v[4:7], a[4:7]\n"
        "v_add_f32 v20, v21, v22\nv_add_f32 v23, v24, v25\n")
OFFSETS = dict.fromkeys(range(4), 0)


def facts() -> StepFacts:
    return StepFacts([units(CODE)], OFFSETS, MACHINE, "kernel.py")


def test_an_order_comes_back_from_its_file(tmp_path: Path) -> None:
    path = orders_file(str(tmp_path / "kernel.py"))
    kept = Arrangement((0, Sync("wait"), 3, 1, Sync("barrier"), 2), frozenset({3}))
    path.write_text(with_order(path, "abc", kept, "first"))
    path.write_text(with_order(path, "def", Arrangement((1, 0)), "second"))
    assert path.name == "kernel.orders.json"
    assert read_orders(path) == {"abc": kept, "def": Arrangement((1, 0))}


def test_a_build_takes_the_kept_order_of_its_step_and_remarks_on_another(tmp_path: Path) -> None:
    beside = str(tmp_path / "kernel.py")
    own = Modulo(beside).arrange([units(CODE)], OFFSETS, MACHINE)
    assert "keeps no order" not in own.remark  # nothing was ever kept there
    kept = Arrangement(tuple(reversed(own.order)))
    assert kept.order != own.order
    path = orders_file(beside)
    path.write_text(with_order(path, step_digest([units(CODE)], OFFSETS, MACHINE), kept, "this step"))
    taken = Modulo(beside).arrange([units(CODE)], OFFSETS, MACHINE)
    assert (taken.order, taken.lead) == (kept.order, kept.lead) and "keeps no order" not in taken.remark
    for other, machine in ((CODE.replace("v25", "v26"), MACHINE), (CODE, StepMachine("gfx950", 2))):
        found = Modulo(beside).arrange([units(other)], OFFSETS, machine)
        assert "kernel.orders.json keeps no order of this step and timing table" in found.remark
        assert found.order != kept.order


@pytest.mark.parametrize("text", ["[]", "{", json.dumps({"abc": {}}), json.dumps({"abc": {"order": "x"}})])
def test_a_file_of_something_else_is_refused_with_its_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kernel.orders.json"
    path.write_text(text)
    with pytest.raises(AsmgenError, match=r"kernel\.orders\.json holds no orders"):
        read_orders(path)


def test_a_long_search_proposes_orders_of_all_units_and_imposes_them_on_builds() -> None:
    found = proposals(facts())
    assert found and all(sorted(entry for entry in one.order if isinstance(entry, int)) == [0, 1, 2, 3] for one in found)
    with chosen_by(lambda step: found[-1] if step.digest == facts().digest else None):
        assert Modulo("kernel.py").arrange([units(CODE)], OFFSETS, MACHINE) == found[-1]


def test_an_order_says_what_its_cores_wait_for() -> None:
    step = facts()
    tight = given_up(step, Arrangement((0, 1, 2, 3)))
    assert tight.startswith("matrix cores wait ") and "the end of the loop" in tight and "barriers" not in tight
    slow = given_up(step, Arrangement((0, 2, 3, Sync("wait"), Sync("barrier"), 1)))
    # 8 clk of operand read, 4 for each of two additions and the wait, 8 for the barrier: 28, of which the core works for 16
    assert "barriers and vector work and waits 12" in slow
