"""Code that needs no argument stands before the first that does, as far as the arguments' latency has room."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import asmgen as ag
from asmgen.author.builders.tilebuilder import TileBuilder
from asmgen.author.contract.contract import ContractArgument, Formula, KernelContract
from asmgen.author.loop.argumentwait import fill_argument_wait
from asmgen.isa.registers import exec_
from asmgen.program.program import Instruction, Item

SLOTS = 1000 // 4
"""docs/facts/microarchitecture.md section 2.7: the first scalar load takes 1000 clk; a wave issues every 4 clk."""

Between = Callable[[TileBuilder], object]
_NUMBER = ContractArgument("n", "u32", "a number")


def before_argument(between: Between = lambda k: None, count: int = 3, waves: int = 1, arguments: tuple[ContractArgument, ...] = (_NUMBER,),
                    ) -> int:
    """How many of `count` instructions without arguments stand before the one that needs one; they are emitted after it and `between`."""
    contract = KernelContract("wait", "wait", ("gfx950",), (), arguments, (64, 1, 1), Formula("one", lambda _: (1, 1, 1)))
    k = TileBuilder(contract, "gfx950", {})
    user = k.s_mov_b32(k.registers.sgprs(1, "copy"), k.argument("n") if arguments else k.kernarg[0:0])
    assert isinstance(user, Instruction)
    result, other = k.registers.vgprs(1, "result"), k.registers.vgprs(1, "other")
    k.v_mov_b32(other, user.operands[0])  # it follows from the argument
    between(k)
    for number in range(count):
        k.v_add_u32(result, number, k.work_item)
    items = list(map(_text, k.items))
    fill_argument_wait(k, waves)
    assert sorted(map(_text, k.items)) == sorted(items)
    mine = [_text(item) for item in k.items if isinstance(item, Instruction) and item.name == "v_add_u32"]
    assert mine == [one for one in items if one in mine]  # in order
    place = list(map(_text, k.items)).index(_text(user)) - k.begun
    told = [item.comment for item in k.items if isinstance(item, Instruction) and "moved" in item.comment]
    assert told == ([f"needs no argument: moved to the front with {place - 1} more"] if place else [])
    return place


def _text(item: Item) -> str:
    return f"{item.name} {item.operands}" if isinstance(item, Instruction) else str(item)


def test_it_stands_before_the_argument_as_far_as_there_is_room() -> None:
    assert before_argument() == 3
    assert before_argument(count=SLOTS + 9) == SLOTS and before_argument(count=SLOTS + 9, waves=2) == SLOTS // 2


@pytest.mark.parametrize("between", [
    lambda k: k.label("here"), lambda k: k.s_barrier(), lambda k: k.emit("s_waitcnt", vmcnt=0), lambda k: k.s_mov_b64(exec_, -1),
])
def test_nothing_passes_what_ends_it(between: Between) -> None:
    assert before_argument(between) == 0


def test_code_that_touches_registers_of_code_that_waits_stays() -> None:
    def writes_result(k: TileBuilder) -> None:
        k.v_mov_b32(next(one.reg for one in k.registers.live() if one.name == "result"), k.argument("n"))

    def writes_source(k: TileBuilder) -> None:
        k.v_mov_b32(k.work_item, k.argument("n"))

    assert before_argument(writes_result) == before_argument(writes_source) == 0


def test_a_kernel_without_arguments_stays_as_it_is() -> None:
    assert before_argument(arguments=()) == 0


def test_code_stays_in_its_order_where_its_family_does_not_ask() -> None:
    def moved(asks: bool) -> bool:
        family = ag.Family("own", "own", (_NUMBER,), (), ag.GridRule("one", lambda *_: (1, 1, 1)), lambda *_: ag.Problem({}, ()),
                           fills_argument_wait=asks)

        @family.variant("gfx950")
        def write(k: ag.TileBuilder) -> None:
            k.s_mov_b32(k.registers.sgprs(1, "copy"), k.argument("n"))
            k.v_add_u32(k.registers.vgprs(1, "result"), 1, k.work_item)

        return "moved to the front" in family.build("gfx950").text()

    assert moved(True) and not moved(False)
