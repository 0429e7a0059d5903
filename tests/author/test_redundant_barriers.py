"""Barriers at the end of a pipeline: those stay that order a fill or a first read, or keep the halves' MFMAs apart, and no others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asmgen.author.emit.builder import Builder
from asmgen.author.emit.ldsmap import LdsRange
from asmgen.author.loop.redundantbarriers import LoopBefore, redundant_barriers
from asmgen.author.schedule.schedules import Sync, is_matrix
from asmgen.author.step.effects import Tag, Unit
from asmgen.checks.mutants.mutants import Judge, mutants
from asmgen.isa.registers import s, scc, v
from asmgen.kernels.attention_forward.library import ATTENTION

Program = Sequence[Sync | Unit]


@cache
def entry(letter: str) -> Sync | Unit:
    """`|` a barrier, `(` half of the waves fall behind, `)` they are level, `a` and `b` reads of the halves of cell c, `c` a read of all of
    it, `d` of what follows it, `A` to `D` writes of the same, `E` and `F` fills of the halves by DMA, `u` a use of read data, `?` a read
    that names nothing, `m` an MFMA, `=` a comparison, `!` its branch's."""
    if letter in "|()":
        return Sync({"|": "barrier", "(": "open", ")": "level"}[letter])
    k = Builder("k", "gfx950")
    part = {"a": (0, 64), "b": (64, 128), "c": (0, 128), "d": (128, 192)}.get(letter.lower(), (0, 0))
    if letter in "ABCD":
        k.ds_write_b32(v[0], v[1], fills=LdsRange("c", *part))
    elif letter in "EF":
        k.buffer_load_dword(v[0], s[0:3], 0, offen=True, lds=True, fills=LdsRange("c", *((0, 64) if letter == "E" else (64, 128))))
    elif letter == "?":
        k.ds_read_b32(v[2], v[0])
    elif letter == "u":
        k.v_mov_b32(v[3], v[2])
    elif letter == "m":
        k.v_mfma_f32_16x16x32_bf16(v[8:11], v[12:15], v[16:19], v[8:11])
    elif letter == "=":
        k.s_cmp_eq_u32(s[0], 0)
    elif letter == "!":
        k.s_cselect_b32(s[1], 1, 0)
    else:
        k.ds_read_b32(v[2], v[0], uses=LdsRange("c", *part))
    return Unit(0, (k.items[0],), Tag("main"))


def entries(letters: str) -> Program:
    return [entry(letter) for letter in letters]


@pytest.mark.parametrize(("letters", "redundant"), [
    ("a|a|", {1, 3}), ("a|b|", {3}), ("c|b|", {1, 3}), ("a|c|", {3}), ("aA|a|", {4}), ("a|A|", {3}), ("bA|b|", {2, 4}), ("a|A|A|", {3, 5}),
    ("a|a", {1}), ("a|?|", {3}), ("a|m|a|", {1, 3, 5}), ("|a|a|", {2, 4}), ("a|a|A|a|a|", {1, 7, 9}), ("a|A|C|", {3, 5}), ("", set()),
    ("AB|a|b|", {6}), ("BA|a|b|", {4, 6}), ("A|a|B|b|", {3, 7}),
    ("ABD|a|b|d|", {9}), ("ABD|au|b|d|", {8, 10}), ("ABD|ua|b|d|", {10})])
def test_a_barrier_stays_where_a_fill_or_a_first_read_follows(letters: str, redundant: set[int]) -> None:
    assert redundant_barriers(entries(letters)) == dict.fromkeys(redundant)


@pytest.mark.parametrize(("front", "letters", "thin"), [
    ("", "||||a|m|", "--||a)m-"),  # of four barriers two are enough, and behind the last access the halves are level
    ("(", "m|m||A|", "m(m||A)"),
    ("m|", "|m|||A", "|m-||A"),  # a free stage between two MFMAs is enough,
    ("m|", "m|||A", "m-||A"),
    ("m|", "||m||A", "|-m||A"),
    ("(", "|m||m||A|", "(m||m||A)"),  # and stays
    ("(a", "||m||C|m|", "-(m||C)m-"),  # half of the waves fall behind in place of the last one that goes
    ("||(", "|m|A||a|", "-m(A||a)"),  # nobody reads before the first fill, but what the prologue's barriers are for
    ("||(b", "|m|A||a|", "-m(A||a)"),
    ("||(a", "|m|A||a|", "|m|A||a)"),
    ("|(", "|m|A||a|", "|m|A||a)"),
    ("EF||(", "b||a||", "b)-a--"),  # waves wait for the later fill before both barriers in front, so for the earlier one too
    ("FE||(", "b||a||", "b||a)-"),
    ("EF|(", "b||a||", "b||a)-"),
    ("(a", "a|m||", "a)m--"),  # nothing orders data: a half falls behind and is level again at once
    ("(a", "|=|!||C=|!|", "(=-!||C=-!)"),  # no branch may come where a comparison waits for its reader
])
def test_with_a_stagger(front: str, letters: str, thin: str) -> None:
    found = redundant_barriers(entries(letters), 1, {0: entries(front)})
    shown = {None: "-", Sync("open"): "(", Sync("level"): ")"}
    assert "".join(shown[found[position]] if position in found else letter for position, letter in enumerate(letters)) == thin


def test_every_way_in_has_its_say() -> None:
    """What one way has read before, another one has not; and where another one's MFMAs meet."""
    code = entries("c|m|b|")
    assert set(redundant_barriers(code)) == {1, 3, 5}
    assert set(redundant_barriers(code, 0, {0: (), 2: entries("c")})) == {1, 3, 5}
    assert set(redundant_barriers(code, 0, {0: (), 2: entries("a|")})) == {1, 5}
    code = entries("m|a|b|")
    assert set(redundant_barriers(code, 0, {0: entries("c|EF")})) == {5}
    assert set(redundant_barriers(code, 0, {0: entries("c|EF"), 1: entries("c|EF")})) == {5}
    assert set(redundant_barriers(code, 0, {0: entries("c|EF"), 1: entries("c|FE")})) == {3, 5}  # its wait at 1 is for both fills
    code = entries("|||m||A")
    assert set(redundant_barriers(code, 1, {0: entries("m|")})) == {1, 2}
    assert set(redundant_barriers(code, 1, {0: entries("m|"), 2: entries("(m|")})) == {0, 1}
    code = entries("|m||C")
    assert redundant_barriers(code, 1, {0: entries("(")}) == {0: Sync("open")}
    assert redundant_barriers(code, 1, {0: entries("("), 2: entries("(|")}) == {0: None}  # each way has its own


@pytest.mark.parametrize(("front", "onward", "redundant"), [
    ("FE|", "", {2}), ("FE|", "a", {0, 2}),  # the loop waits for the later fill as it reads that next, so for the earlier one too
    ("EF|", "a", {2}), ("FE", "a", {2})])
def test_a_loop_waits_as_in_its_rounds_where_its_end_reads_less(front: str, onward: str, redundant: set[int]) -> None:
    loop = LoopBefore(entries(onward), len(front)) if onward else None
    assert set(redundant_barriers(entries("|b|"), 0, {0: entries(front)}, loop=loop)) == redundant


@pytest.mark.parametrize(("way", "redundant"), [
    ("FE", {0, 2}),  # enters before the barrier, where it has the other fill in flight, so all rounds wait for both
    ("EF", {2})])
def test_a_loop_waits_as_a_path_into_it_asks(way: str, redundant: set[int]) -> None:
    code = "EF|a|"
    for rounds in (1, 2):
        loop = LoopBefore(entries(code), len(code), [(2, entries(way))])
        assert set(redundant_barriers(entries("|b|"), 0, {0: entries(rounds * code)}, loop=loop)) == redundant


# ---- two halves, barrier by barrier ----

def passed(program: Program, stagger: int) -> list[list[int]]:
    """For each half how many barriers it has passed in front of each entry; without an "open" one half is behind from the start."""
    behind = 0 if Sync("open") in program else stagger
    counts: list[list[int]] = [[], []]
    now = [0, behind]
    for one in program:
        for half in (0, 1):
            counts[half].append(now[half])
        now = [now[0] + (one == Sync("barrier")) + stagger * (one == Sync("level")),
               now[1] + (one == Sync("barrier")) + stagger * (one == Sync("open"))]
    if Sync("level") not in program:
        now[0] += stagger
    assert now[0] == now[1]  # else a half waits for ever
    return counts


def conflicting(one: Sync | Unit, other: Sync | Unit) -> bool:
    """Whether one reads what the other fills; what names nothing is anywhere."""
    if isinstance(one, Sync) or isinstance(other, Sync):
        return False
    return any(mine.write != theirs.write and mine.conflicts(theirs) for mine in one.effects.memory for theirs in other.effects.memory)


def certain(counts: list[list[int]], settled: int, position: int) -> bool:
    """Whether every wave of either half has come by `settled` when one gets to `place`."""
    return all(counts[mine][settled] < counts[theirs][position] for mine in (0, 1) for theirs in (0, 1))


def settlements(program: Program, counts: list[list[int]]) -> Mapping[int, tuple[int, list[int]]]:
    """For each access the last place at which it can have been waited for, with all that relies on it: later accesses of other waves."""
    found = {}
    for position, one in enumerate(program):
        relying = [later for later in range(position + 1, len(program)) if conflicting(one, program[later])]
        last = max((at for at in range(position + 1, len(program)) if all(certain(counts, at, later) for later in relying)), default=None)
        if relying and last is not None:
            found[position] = last, relying
    return found


def meetings(program: Program, counts: list[list[int]], end: int) -> int:
    """Between how many barriers both halves compute, once they are apart and before the entry `end`."""
    first = program.index(Sync("open")) if Sync("open") in program else 0
    computing = [{counts[half][position] for position in range(first, end) if is_matrix_at(program[position])} for half in (0, 1)]
    return len(computing[0] & computing[1])


def is_matrix_at(one: Sync | Unit) -> bool:
    return isinstance(one, Unit) and is_matrix(one)


def check(front: Program, code: Program, found: Mapping[int, Sync | None], stagger: int, known: bool = True) -> None:
    """Nothing loses its order, and no halves meet anew, on a way through `code` from a front that was `known`."""
    before = [*front, *code]
    moved = Sync("open") in found.values()
    redundant = Sync("wait")  # stands for what is gone, so that places stay what they are
    after = [redundant if moved and one == Sync("open") else one for one in front]
    after += [(found[position] or redundant) if position in found else one for position, one in enumerate(code)]
    were, are = passed(before, stagger), passed(after, stagger)
    for at, relying in settlements(before, were).values():
        assert all(certain(are, at, position) for position in relying)
    end = after.index(Sync("level")) if Sync("level") in after else len(after)
    if known:
        assert meetings(after, are, end) <= meetings(before, were, end)
    for position, one in enumerate(after):
        if one in (Sync("open"), Sync("level")) and position >= len(front):
            rest = [other for other in after[position:]
                    if isinstance(other, Unit) and (other.effects.reads | other.effects.writes) & scc.mask]
            assert not rest or not rest[0].effects.reads & scc.mask


CODE = st.lists(st.sampled_from("||||||aabcACmmm=!"), min_size=4, max_size=16).map("".join)


@settings(max_examples=200)
@given(front=CODE, letters=CODE, stagger=st.sampled_from([0, 1, 1, 2]))
def test_unknown_code_in_front_keeps_its_order(front: str, letters: str, stagger: int) -> None:
    found = redundant_barriers(entries(letters), stagger)
    check(entries(front), entries(letters), found, stagger, known=False)


@settings(max_examples=200)
@given(fronts=st.lists(st.tuples(CODE, st.integers(0, 8), st.booleans(), st.integers(0, 16)), min_size=1, max_size=3), letters=CODE,
       stagger=st.sampled_from([0, 1, 1, 2]))
@pytest.mark.slow
def test_every_way_keeps_its_order(fronts: list[tuple[str, int, bool, int]], letters: str, stagger: int) -> None:
    code = entries(letters)
    prefixes: dict[int, Program] = {}
    for number, (front, cut, opens, position) in enumerate(fronts):
        prefixes[min(position, len(code)) if number else 0] = entries(front[:cut] + "(" * opens + front[cut:])
    found = redundant_barriers(code, stagger, prefixes)
    level = min((position for position, instead in found.items() if instead == Sync("level")), default=len(code))
    for position, front in prefixes.items():
        if position <= level or not stagger:
            check(front, code[position:], {at - position: instead for at, instead in found.items() if at >= position}, stagger)


@pytest.mark.slow
def test_a_prologue_in_front_of_a_loop_has_no_redundant_barrier() -> None:
    """Lint misses each barrier of a kernel whose prologue reads LDS, and fills what nothing has touched, and whose drain shares cold
    blocks with its loops."""
    program = ATTENTION.build("gfx950", {"d": 64, "waves": 4, "window": True}).program
    judge = Judge(program)
    deleted = [mutant for mutant in mutants(program) if mutant.kind == "barrier"]
    assert len(deleted) == 12 and all(judge.notices(mutant) for mutant in deleted)
