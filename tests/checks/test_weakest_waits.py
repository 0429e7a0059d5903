"""Waits and barriers made as weak as verification allows."""

from __future__ import annotations

import pytest

from asmgen.author.emit.builder import Builder
from asmgen.author.emit.ldsmap import LdsRange
from asmgen.checks.waits.needless import weakest
from asmgen.isa.operands import Waitcnt
from asmgen.isa.registers import s, v


@pytest.mark.parametrize(("used", "left"), [((0,), ["vmcnt(2)"]), ((0, 1), ["vmcnt(1)"]), ((2,), ["vmcnt(0)"]), ((), [])])
def test_a_counted_wait_lets_pass_what_nobody_uses_yet(used: tuple[int, ...], left: list[str]) -> None:
    """Of three loads the used ones must have arrived; where none is used the wait goes."""
    k = Builder("k", "gfx950")
    for number in range(3):
        k.buffer_load_dword(v[4 + number], v[0], s[0:3], 0, offen=True)
    k.s_waitcnt(Waitcnt(vmcnt=0))
    for number in used:
        k.v_mov_b32(v[10 + number], v[4 + number])
    found = weakest(k.program(), (), (3,))
    assert [str(one.operands[0]) for one in found.instructions if one.name == "s_waitcnt"] == left


@pytest.mark.parametrize(("low", "barriers"), [(0, 2), (64, 1)])
def test_a_barrier_goes_where_nothing_is_filled_that_others_read(low: int, barriers: int) -> None:
    """Bytes 0 to 64 are read before the second barrier and filled after it, or others are."""
    k = Builder("k", "gfx950")
    k.ds_write_b32(v[0], v[1], fills=LdsRange("a", 0, 64))
    k.s_waitcnt(Waitcnt(lgkmcnt=0))
    k.s_barrier()
    k.ds_read_b32(v[2], v[0], uses=LdsRange("a", 0, 64))
    k.s_waitcnt(Waitcnt(lgkmcnt=0))
    k.s_barrier()
    k.ds_write_b32(v[0], v[1], fills=LdsRange("b", low, low + 64))
    found = weakest(k.program(), (5,))
    assert sum(one.name == "s_barrier" for one in found.instructions) == barriers
