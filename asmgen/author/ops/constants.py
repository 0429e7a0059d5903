"""Numbers that instructions take from an SGPR, because they are no inline constants or the instruction takes no literal."""

from __future__ import annotations

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
    key = ("constant", value)
    if key not in k.made:
        def make() -> Reg:
            reg = k.registers.sgprs(1, k.registers.unused(name), note=f"{value:#x}")
            _move(k, reg, value)
            return reg

        k.made[key] = k.hoist(make)
    found = k.made[key]
    assert isinstance(found, Reg)
    yield found


def _move(k: TileBuilder, out: Reg, value: int) -> None:
    k.emit("s_movk_i32" if value < 1 << 15 else "s_mov_b32", out, value)
