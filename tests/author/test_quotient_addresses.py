"""Addresses by quotients of lanes: rows of 48 and 96 bytes, which lines of LDS-DMA cut anywhere."""

from __future__ import annotations

import pytest

from asmgen.author.address.addresscode import Input
from asmgen.author.address.quotients import plan_address
from asmgen.isa.layout import LayoutError

CASES = [lambda lane, wave: (lane + 64) // 3 + 64 * wave, lambda lane, wave: (lane + 128) % 3 * 16,
         lambda lane, wave: lane // 6 * 5 + 3 * wave + 7, lambda lane, wave: (lane + 16) % 24 * 4,
         lambda lane, wave: lane % 6 * 16 + 8 * wave]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_the_code_gives_the_address(number: int) -> None:
    address = CASES[number]
    code = plan_address(address, [Input("lane", 64), Input("wave", 4, True)])
    assert all(code.evaluate(lane=lane, wave=wave) == address(lane, wave) for lane in range(64) for wave in range(4))


@pytest.mark.parametrize("address", [lambda lane, wave: lane // 5, lambda lane, wave: lane // 3 * (wave & 1)])
def test_others_are_refused(address: object) -> None:
    with pytest.raises(LayoutError, match="no short code"):
        plan_address(address, [Input("lane", 64), Input("wave", 4, True)])  # type: ignore[arg-type]
