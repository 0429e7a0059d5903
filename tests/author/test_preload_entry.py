"""The compatibility entry of preloaded arguments waits for its loads, unless the body waits for all of them before it touches one."""

from __future__ import annotations

import pytest

from asmgen.author.contract.contract import ContractArgument, Formula, KernelContract
from asmgen.author.emit.kernel import KernelBuilder

CONTRACT = KernelContract("nine", "t", ("gfx950",), (), tuple(ContractArgument(f"p{n}", "pointer", "p") for n in range(9)), (64, 1, 1),
                          Formula("one", lambda p: (1, 1, 1)))


@pytest.mark.parametrize(("first", "waits"), [("p0", True), ("p8", False)])
def test_the_entry_waits_where_the_body_does_not(first: str, waits: bool) -> None:
    """Of 9 pointers 7 are preloaded: the body loads the last, and waits for it before it touches another or not."""
    k = KernelBuilder(CONTRACT, "gfx950", {}, preload=True)
    at = k.registers.sgprs(2, "at")
    k.s_mov_b64(at, k.argument(first))
    k.s_mov_b64(at, k.argument("p8"))
    k.s_mov_b64(at, k.argument("p0"))
    k.s_endpgm()
    program = k.finish().program
    names = [instruction.name for instruction in program.instructions]
    branch = names.index("s_branch")
    assert names[:branch].count("s_waitcnt") == waits and names[branch:].count("s_waitcnt") == 1


@pytest.mark.parametrize("early", [False, True])
def test_the_entry_waits_where_one_way_of_the_body_does_not(early: bool) -> None:
    """A way around the first wait: both ways wait before they touch what is preloaded, or the one around does not."""
    k = KernelBuilder(CONTRACT, "gfx950", {}, preload=True)
    at = k.registers.sgprs(2, "at")
    k.s_cmp_eq_u32(k.ids["x"], 0)
    k.s_cbranch_scc1("around")
    k.s_mov_b64(at, k.argument("p8"))
    k.label("around")
    if early:
        k.s_mov_b64(at, k.argument("p1"))
    k.s_mov_b64(at, k.argument("p8"))
    k.s_mov_b64(at, k.argument("p0"))
    k.s_endpgm()
    names = [instruction.name for instruction in k.finish().program.instructions]
    assert names[:names.index("s_branch")].count("s_waitcnt") == early
