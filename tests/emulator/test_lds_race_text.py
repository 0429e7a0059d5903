"""What the emulator says of a race in LDS: in one barrier interval, or over a barrier that a write crossed in flight."""

from __future__ import annotations

import numpy as np
import pytest

from asmgen.author.emit.builder import Builder
from asmgen.isa.registers import m0, s, v
from tests.emulator_launch import ORDERS, launch

pytestmark = pytest.mark.usefixtures("both_paths")
SAME, OVER = "in the same barrier interval", "in flight over the barrier"


def other_half(k: Builder) -> None:
    """v2: this lane's dword of the wave's own 256 bytes; v3: the same of the other wave; s6: the wave's first byte."""
    k.v_lshlrev_b32(v[2], 2, v[0])
    k.v_xor_b32(v[3], 256, v[2])
    k.v_readfirstlane_b32(s[6], v[2])


def dma(k: Builder, wait: int | None, barrier: bool) -> None:
    """Two loads into LDS, the second one 512 bytes on, and a read of what the other wave's second one brings."""
    k.s_load_dwordx2(s[8:9], s[0:1], 0)
    other_half(k)
    k.s_waitcnt(lgkmcnt=0)
    for part in range(2):
        k.s_add_u32(m0, s[6], 512 * part)
        k.s_nop(4)
        k.global_load_lds_dword(v[2], s[8:9])
    if wait is not None:
        k.s_waitcnt(vmcnt=wait)
    if barrier:
        k.s_barrier()
    k.ds_read_b32(v[4], v[3], offset=512)
    k.s_waitcnt(vmcnt=0, lgkmcnt=0)
    k.s_endpgm()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("wait", "barrier", "says"), [(1, True, OVER), (None, True, OVER), (0, True, ""), (0, False, SAME)])
def test_loads_into_lds(order: str, wait: int | None, barrier: bool, says: str) -> None:
    found = launch("gfx950", lambda k: dma(k, wait, barrier), block=(128, 1, 1), buffers=[np.arange(256, dtype=np.uint32)], lds=1024,
                   order=order).findings
    races = [finding.message for finding in found if finding.check == "lds-race"]
    assert bool(races) == bool(says) and all(says in message for message in races)
    assert all("s_waitcnt vmcnt(0) would have" in message for message in races if says == OVER)


def writes(k: Builder, wait: bool, barrier: bool, reads: bool) -> None:
    """A write and a newer one in flight, then the other wave's first write read or overwritten."""
    other_half(k)
    k.ds_write_b32(v[2], v[0])
    k.ds_write_b32(v[2], v[0], offset=512)
    if wait:
        k.s_waitcnt(lgkmcnt=1)
    if barrier:
        k.s_barrier()
    if reads:
        k.ds_read_b32(v[4], v[3])
    else:
        k.ds_write_b32(v[3], v[3])
    k.s_waitcnt(lgkmcnt=0)
    k.s_endpgm()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize(("wait", "barrier", "says"), [(False, True, OVER), (True, True, ""), (True, False, SAME)])
def test_lds_writes(order: str, wait: bool, barrier: bool, reads: bool, says: str) -> None:
    found = launch("gfx950", lambda k: writes(k, wait, barrier, reads), block=(128, 1, 1), lds=1024, order=order).findings
    races = [finding.message for finding in found if finding.check == "lds-race" and (says or finding.severity == "error")]
    assert bool(races) == bool(says) and all(says in message for message in races[:1])
    assert all("s_waitcnt lgkmcnt(1) would have" in message for message in races if OVER in message)
