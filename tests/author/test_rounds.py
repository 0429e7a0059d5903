"""Code that runs again has a barrier between its rounds where their accesses to LDS meet, and none elsewhere."""

from __future__ import annotations

import pytest

from asmgen.author.emit.builder import Builder
from asmgen.author.emit.ldsmap import LdsRange
from asmgen.author.loop.rounds import barrier_between_rounds
from asmgen.isa.errors import AsmgenError
from asmgen.isa.registers import s, v

_BYTES = {"a": (0, 64), "b": (64, 128), "c": (0, 128)}


def emit(k: Builder, code: str) -> None:
    """`|` a barrier, small letters reads and large ones writes of bytes a, b, or c = both; `>` a branch to `<`, `?` a read that names
    nothing."""
    for letter in code:
        if letter == "|":
            k.s_barrier()
        elif letter == ">":
            k.s_cbranch_scc1("ahead")
        elif letter == "<":
            k.label("ahead")
        elif letter == "?":
            k.ds_read_b32(v[2], v[0])
        else:
            part = LdsRange(letter, *_BYTES[letter.lower()])
            if letter.isupper():
                k.ds_write_b32(v[0], v[1], fills=part)
            else:
                k.ds_read_b32(v[2], v[0], uses=part)


@pytest.mark.parametrize(("code", "needed"), [
    ("A|a", True),  # the next round fills what this one reads
    ("A|a|", False),
    ("A|b", False),
    ("a|c", False),  # reads alone
    ("a|C", True),
    ("A|a>|<", True),  # a way past the last barrier
    ("A>|a|<", True),  # a way without any barrier: fills by two waves
    (">|<b|A", False),
    (">|<b|B", True),
])
def test_a_barrier_stands_between_rounds_that_meet(code: str, needed: bool) -> None:
    k = Builder("k", "gfx950")
    emit(k, "C|")  # what stands before the rounds does not count
    k.label("again")
    emit(k, code)
    before = len(k.items)
    barrier_between_rounds(k, "again")
    assert len(k.items) - before == needed
    k.s_add_u32(s[0], s[0], 1)


@pytest.mark.parametrize(("code", "needed"), [
    ("A|a", 2),
    ("A|a|", 1),
    ("|A|a", 1),
    ("|A|a|", 0),
    ("A>||<a", 2),  # a way past both barriers
    ("|a|B", 0),
])
def test_waves_a_barrier_apart_pass_one_more(code: str, needed: int) -> None:
    k = Builder("k", "gfx950", stagger=1)
    k.label("again")
    emit(k, code)
    before = len(k.items)
    barrier_between_rounds(k, "again")
    assert len(k.items) - before == needed


def test_what_cannot_be_derived_is_refused() -> None:
    k = Builder("k", "gfx950")
    k.label("again")
    emit(k, "|?")
    with pytest.raises(AsmgenError, match="without a token"):
        barrier_between_rounds(k, "again")
    with pytest.raises(AsmgenError, match="no label 'other'"):
        barrier_between_rounds(k, "other")
