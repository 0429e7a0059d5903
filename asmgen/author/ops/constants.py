"""Numbers that instructions take from an SGPR, because they are no inline constants or the instruction takes no literal."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from asmgen.isa.registers import Reg

if TYPE_CHECKING:
    from asmgen.author.builders.tilebuilder import TileBuilder


@contextmanager
def constant(k: TileBuilder, name: str, value: int) -> Iterator[Reg]:
    """An SGPR with a number of 32 bits: in a pipeline's step one that is made once, before the loop, elsewhere a temporary."""
    if k.copy is None:
        with k.scratch(name, file="s") as held:
            _move(k, held, value)
            yield held
        return
    yield _kept(k, name, value, 1)


@contextmanager
def constant_pair(k: TileBuilder, name: str, value: int) -> Iterator[Reg]:
    """Two SGPRs with the number, as packed instructions take it twice; see `constant`."""
    if k.copy is not None:
        yield _kept(k, name, value, 2)
        return
    with k.scratch(name, 2, "s") as held:
        for half in range(2):
            _move(k, held[half], value)
        yield held


def word_of(value: int | float) -> int:
    """The bits of a number: an integer's, or those of f32."""
    return value & 0xFFFFFFFF if isinstance(value, int) else int(struct.unpack("<I", struct.pack("<f", value))[0])


def _kept(k: TileBuilder, name: str, value: int, count: int) -> Reg:
    """Registers with a number that are made once, before the loop."""
    key = ("constant", value, count)
    if key not in k.made:
        def make() -> Reg:
            reg = k.registers.sgprs(count, k.registers.unused(name), note=f"{value:#x}")
            for number in range(count):
                _move(k, reg[number], value)
            return reg

        k.made[key] = k.hoist(make)
    found = k.made[key]
    assert isinstance(found, Reg)
    return found


def _move(k: TileBuilder, out: Reg, value: int) -> None:
    k.emit("s_movk_i32" if value < 1 << 15 else "s_mov_b32", out, value)
