"""Barriers at the end of a pipeline: those stay that order a fill or a first read, and no others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from asmgen.author.builder import Builder
from asmgen.author.effects import Tag, Unit
from asmgen.author.idlebarriers import idle_barriers
from asmgen.author.ldsmap import LdsRange
from asmgen.author.schedules import Sync
from asmgen.isa.registers import v


def entries(letters: str) -> Sequence[Sync | Unit]:
    """`|` a barrier, `w` a wait point, `a` and `b` reads of the halves of cell c, `c` a read of all of it, `A` a write of its lower half,
    `?` a read that names nothing."""
    found: list[Sync | Unit] = []
    for letter in letters:
        if letter in "|w":
            found.append(Sync("barrier" if letter == "|" else "wait"))
            continue
        k = Builder("k", "gfx950")
        low, high = {"a": (0, 64), "b": (64, 128), "c": (0, 128), "A": (0, 64), "?": (0, 0)}[letter]
        part = LdsRange("c", low, high)
        if letter == "A":
            k.ds_write_b32(v[0], v[1], fills=part)
        elif letter == "?":
            k.ds_read_b32(v[2], v[0])
        else:
            k.ds_read_b32(v[2], v[0], uses=part)
        found.append(Unit(0, (k.items[0],), Tag("main")))
    return found


@pytest.mark.parametrize(("letters", "idle"), [
    ("a|a|", {1, 3}), ("a|b|", {3}), ("c|b|", {1, 3}), ("a|c|", {3}), ("aA|a|", {4}), ("a|A|", {3}), ("bA|b|", {2, 4}),
    ("a|a", {1}), ("a|?|", {3}), ("a|w|a|", {1, 3, 5}), ("|a|a|", {2, 4}), ("a|a|A|a|a|", {1, 7, 9}), ("", set())])
def test_a_barrier_stays_where_a_fill_or_a_first_read_follows(letters: str, idle: set[int]) -> None:
    assert idle_barriers(entries(letters)) == idle
