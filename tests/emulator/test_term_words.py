"""Terms against their definition: random integer programs, whose terms are computed again from the values of their variables."""

from __future__ import annotations

import random
from itertools import permutations
from operator import and_, or_, xor
from typing import Any

import numpy as np
import pytest

from asmgen.emulator.carried.cells import UNKNOWN
from asmgen.emulator.semantics import meaning
from asmgen.emulator.terms.polynomials import LARGEST, Polynomials, Term, TermVariable
from asmgen.emulator.terms.termwords import FUNCTIONS, RELATIONS, TermTable, TermWord, TermWords

LANES = 8
ONE = ["v_not_b32", "v_bfrev_b32", "v_ffbh_u32", "v_ffbl_b32"]
TWO = ["v_add_u32", "v_sub_u32", "v_subrev_u32", "v_mul_lo_u32", "v_mul_hi_u32", "v_mul_hi_i32", "v_mul_u32_u24", "v_mul_i32_i24",
       "v_and_b32", "v_or_b32", "v_xor_b32", "v_xnor_b32", "v_lshlrev_b32", "v_lshrrev_b32",
       "v_ashrrev_i32", "v_min_u32", "v_max_i32", "v_bfm_b32",
       "v_bcnt_u32_b32"]
THREE = ["v_mad_u32_u24", "v_lshl_add_u32", "v_add_lshl_u32", "v_add3_u32", "v_xad_u32", "v_lshl_or_b32", "v_and_or_b32", "v_or3_b32",
         "v_bfe_u32", "v_bfe_i32", "v_bfi_b32", "v_alignbit_b32", "v_perm_b32", "v_sad_u8", "v_med3_u32"]


class Space:
    """Variables with values of their own in each lane."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.table = TermTable()
        self.words = TermWords(self.table)
        self.given: list[dict[int, int]] = [{} for _ in range(LANES)]

    def variable(self, name: str, low: int, high: int) -> TermWord:
        term = self.table.algebra.variable(name, low, high)
        values = [self.chance.choice([low, high, self.chance.randint(low, high)]) for _ in range(LANES)]
        for lane, value in enumerate(values):
            self.given[lane][term[0][0][0]] = value
        return self.word(term, values)

    def word(self, term: Term, values: list[int]) -> TermWord:
        return TermWord(np.array(values, np.uint32), np.full(LANES, self.table.number(term), np.uint32))

    def check(self, word: TermWord, text: str) -> None:
        if word.ids is None:
            return
        bits = word.value.dtype.itemsize * 8
        for lane in range(LANES):
            term = self.table.terms[int(word.ids[lane])]
            assert term is not None and int(word.ids[lane]) != UNKNOWN
            found = self.table.algebra.value(term, self.given[lane], FUNCTIONS)
            assert found % (1 << bits) == int(word.value[lane]), f"{text}: {self.table.algebra.text(term)} in lane {lane}"
            low, high = self.table.algebra.bounds(term)
            assert low <= found <= high, text


def items(space: Space) -> list[TermWord]:
    """The number of a work-item by bits, a workgroup's id, sizes and constants."""
    algebra = space.table.algebra
    item: Term = ()
    values = [0] * LANES
    for bit in range(8):
        one = space.variable(f"item.{bit}", 0, 1)
        values = [value | int(part) << bit for value, part in zip(values, one.value, strict=True)]
        item = algebra.add(item, space.table.terms[int(one.ids[0])] or (), 1 << bit)  # type: ignore[index]
    fixed = [TermWord(np.full(LANES, value, np.uint32)) for value in (0, 1, 3, 5, 8, 15, 16, 0x3F0, 0xFFFFFFFF, 0xFFFFFFF0, 0x01000302)]
    return [space.word(item, values), space.variable("wg", 0, 1000), space.variable("stride", 1, 1 << 20),
            space.variable("size", 0, (1 << 32) - 1), *fixed]


def selected(space: Space, pool: list[TermWord]) -> TermWord:
    """One of two words by a comparison of two others, a bit or the contrary of them."""
    a, b, yes, no = (space.chance.choice(pool) for _ in range(4))
    flag = space.words.compare(space.chance.choice([*RELATIONS]), space.chance.random() < 0.5, a, b)
    flag = space.chance.choice([flag, space.words.bit(a, space.chance.randrange(32)), space.words.nonzero(a)])
    flag = space.chance.choice([flag, space.words.contrary(flag)])
    space.check(TermWord(flag.value.astype(np.uint32), flag.ids), "flag")
    result = space.words.select(flag, yes, no)
    space.check(result, "select")
    return result


@pytest.mark.parametrize("seed", range(25))
def test_terms_are_what_they_say(seed: int) -> None:
    space = Space(seed)
    pool = items(space)
    with np.errstate(all="ignore"):
        for _ in range(25):
            kinds = space.chance.choice([ONE, TWO, TWO, TWO, THREE])
            name = space.chance.choice(kinds)
            pool.append(selected(space, pool))
            given = [space.chance.choice(pool) for _ in range(1 + (kinds is not ONE) + (kinds is THREE))]
            result: TermWord = meaning.VECTOR[name](space.words, *given)
            space.check(result, name)
            pool.append(result)


@pytest.mark.parametrize("table", range(256))
def test_truth_tables_are_two_operations_or_a_function(table: int) -> None:
    """Each source may be kept or inverted, and each operation too: what is left are choices, majorities and their like."""
    space = Space(table)
    pool = items(space)
    with np.errstate(all="ignore"):
        space.check(space.words.bitwise(table, *pool[:1], *pool[2:4]), f"v_bitop3 of {table:#x}")
    names = {one.name for one in space.table.algebra.variables}
    assert ("bitwise32" in names) == (table not in COMPOSED)


COMPOSED = {outer(inner(x, y) ^ flip, z) ^ last for x, y, z in permutations((0xF0, 0xCC, 0xAA)) for inner in (and_, or_, xor)
            for outer in (and_, or_, xor) for x in (x, 0xFF ^ x) for y in (y, 0xFF ^ y) for z in (z, 0xFF ^ z) for flip in (0, 0xFF)
            for last in (0, 0xFF)} | {inner(x, y) ^ last for x, y in permutations((0xF0, 0xCC, 0xAA), 2) for inner in (and_, or_, xor)
                                      for x in (x, 0xFF ^ x) for y in (y, 0xFF ^ y) for last in (0, 0xFF)} | {0xF0, 0xCC, 0xAA, 15, 51, 85}
"""By the list, not by the code that is tested."""


@pytest.mark.parametrize("seed", range(10))
def test_carries_and_wide_sums(seed: int) -> None:
    space = Space(seed)
    pool = items(space)
    with np.errstate(all="ignore"):
        for _ in range(12):
            a, b, c, d = (space.chance.choice(pool) for _ in range(4))
            name = space.chance.choice(["add", "sub"])
            first, second = ("v_add_co_u32", "v_addc_co_u32") if name == "add" else ("v_sub_co_u32", "v_subb_co_u32")
            low, carry = meaning.VECTOR[first](space.words, a, b)
            high, _ = meaning.VECTOR[second](space.words, c, d, carry)
            space.check(low, first)
            space.check(high, second)
            pool += [low, high]
            both = space.words.or_(space.words.shl(space.words.resized(high, 64), space.words.number(32, space.words.resized(high, 64))),
                                   space.words.resized(low, 64))
            space.check(both, "64 bits")


def algebra_of(*bounds: tuple[str, int, int]) -> tuple[Polynomials, list[Term]]:
    algebra = Polynomials()
    return algebra, [algebra.variable(*one) for one in bounds]


def test_fields_of_the_work_item_are_sums_of_its_bits() -> None:
    space = Space(0)
    item = items(space)[0]

    def said(word: Any) -> str:
        return space.table.algebra.text(space.table.terms[int(word.ids[0])] or ())

    assert said(meaning.VECTOR["v_bfe_u32"](space.words, item, *constants(2, 2))) == "item.2 + 2 item.3"
    upper = meaning.VECTOR["v_lshrrev_b32"](space.words, *constants(6), item)
    low = meaning.VECTOR["v_and_b32"](space.words, *constants(1), meaning.VECTOR["v_xor_b32"](space.words, item, upper))
    assert said(meaning.VECTOR["v_lshlrev_b32"](space.words, *constants(2), low)) == "4 (item.0 ^ item.6)"
    twice = meaning.VECTOR["v_mul_u32_u24"](space.words, *constants(0x101), item)
    assert said(meaning.VECTOR["v_and_b32"](space.words, *constants(0x105), twice)) == "257 item.0 + 4 item.2"


def constants(*values: int) -> list[TermWord]:
    return [TermWord(np.full(LANES, value, np.uint32)) for value in values]


def test_wrapping_is_in_the_term_unless_bounds_exclude_it() -> None:
    algebra, (row, stride) = algebra_of(("row", 0, 1 << 20), ("stride", 0, 1 << 14))
    product = algebra.mul(row, stride)
    assert product is not None
    held = algebra.truncated(product, 32)
    assert held != product and "floor / 2^32(row stride)" in algebra.text(held)
    algebra, (row, stride) = algebra_of(("row", 0, 1 << 17), ("stride", 0, 1 << 14))
    product = algebra.mul(row, stride)
    assert product is not None and algebra.truncated(product, 32) == product
    assert algebra.bounds(product) == (0, 1 << 31)


def test_products_of_long_sums_are_products_of_named_sums() -> None:
    """Both halves give the product back; what a sum leaves out where it wraps is a quotient of the product still."""
    algebra, given = algebra_of(*((f"x{number}", 0, (1 << 32) - 1) for number in range(LARGEST + 6)))
    total: Term = ()
    for one in given:
        total = algebra.add(total, one)
    stride = algebra.variable("stride", 0, (1 << 32) - 1)
    product = algebra.mul(total, stride)
    assert algebra.text(product).startswith("stride sum(x0 + x1 + ") and len(product) == 1
    assert algebra.add(algebra.truncated(product, 32), algebra.quotient(product, 32), 1 << 32) == product
    held = algebra.mul(algebra.truncated(total, 32), stride)
    assert [coefficient for _, coefficient in held] == [1, 1 << 32] and "floor / 2^0" in algebra.text(held)
    numbers = {number: (number * 0x9E3779B1) % (1 << 32) for number, one in enumerate(algebra.variables) if one.given}
    of = [algebra.value(term, dict(numbers), FUNCTIONS) for term in (total, stride, product, held, algebra.mul(product, total))]
    assert of[2:] == [of[0] * of[1], of[0] % (1 << 32) * of[1], of[0] ** 2 * of[1]]


def test_a_sign_gives_back_what_a_negative_factor_wraps_by() -> None:
    """The 64 bits of (x - y) * stride by 32-bit products: the upper half less the factor where x - y is negative."""
    algebra, (x, y, stride) = algebra_of(("x", 0, 1 << 20), ("y", 0, 1 << 20), ("stride", 0, (1 << 32) - 1))
    given = TermTable()
    given.algebra = algebra
    words = TermWords(given)

    def word(term: Term) -> TermWord:
        return TermWord(np.zeros(1, np.uint32), np.array([given.number(term)], np.uint32))

    further = word(algebra.sub(x, y))
    mask = words.and_(words.sar(further, TermWord(np.full(1, 31, np.uint32))), word(stride))
    upper = algebra.quotient(algebra.mul(algebra.truncated(algebra.sub(x, y), 32), stride), 32)
    (sign,) = (given.terms[int(number)] for number in words.ids_of(mask))
    assert sign is not None
    whole = algebra.add(algebra.truncated(algebra.mul(algebra.sub(x, y), stride), 32), algebra.sub(upper, sign), 1 << 32)
    for numbers in ((5, 9, (1 << 32) - 1), (9, 5, 77), (0, 1 << 20, 1 << 31)):
        assert algebra.value(whole, dict(enumerate(numbers)), FUNCTIONS) == (numbers[0] - numbers[1]) * numbers[2]
    assert words.ids_of(words.sar(word(x), TermWord(np.full(1, 31, np.uint32)))) == words.ids_of(TermWord(np.zeros(1, np.uint32)))


def test_two_halves_of_a_pointer_with_an_offset_give_back_the_sum() -> None:
    algebra, (pointer, offset) = algebra_of(("p", 0, (1 << 47) - 1), ("offset", 0, (1 << 32) - 1))
    given = TermTable()
    given.algebra = algebra
    words = TermWords(given)

    def word(term: Term) -> TermWord:
        return TermWord(np.zeros(1, np.uint32), np.array([given.number(term)], np.uint32))

    low, carry = words.add_carry(word(pointer), word(offset))
    high, _ = words.add_carry(word(algebra.quotient(pointer, 32)), TermWord(np.zeros(1, np.uint32)), carry)
    def whole(*parts: TermWord) -> Term:
        terms: list[Any] = [given.terms[int(words.ids_of(part)[0])] for part in parts]
        return algebra.add(algebra.truncated(terms[0], 32), terms[1], 1 << 32)

    assert whole(low, high) == algebra.add(pointer, offset)
    other = algebra.variable("q", 0, (1 << 47) - 1)
    flag = words.compare("lt", False, word(offset), TermWord(np.full(1, 9, np.uint32)))
    ends = [words.select(flag, one, word(two)) for one, two in ((low, other), (high, algebra.quotient(other, 32)))]
    text = algebra.text(whole(*ends))
    assert text == "select(lt(offset, 9), p + offset, q)", "both halves are of the same pointer"
    zero, one = (TermWord(np.full(1, number, np.uint32)) for number in (0, 1))
    assert words.select(words.compare("lt", False, one, zero), word(pointer), word(other)).ids == word(other).ids


def test_what_is_made_of_a_variable_many_times_is_replaced_once() -> None:
    """As the bits of a number that is turned round, in steps each of which takes the one before it twice."""
    algebra, made = Polynomials(), list[str]()
    term = given = algebra.variable("x", 0, 9)
    for step in range(50):
        term = algebra.function(f"step {step}", term, algebra.times(term, 2))

    def again(variable: TermVariable, parts: tuple[Any, ...]) -> Term:
        made.append(variable.name)
        return algebra.function(variable.name, *parts)

    found = algebra.replaced(term, {given[0][0][0]: algebra.number(3)}, again)
    assert found is not None and found != term and len(made) == 50


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("alike", [True, False])
def test_an_operation_is_applied_to_each_combination_of_terms(count: int, alike: bool) -> None:
    """As one by one, for sources of one number for all lanes, of one for each wave, and of others in each lane."""
    table, rng = TermTable(), np.random.default_rng(count)
    numbers = [table.number(table.algebra.variable(f"x{number}", 0, 9)) for number in range(4)] + [UNKNOWN]
    sources = [rng.choice(numbers[:1] if alike else numbers, shape).astype(np.uint32) for shape in ((3, LANES), (3, 1), (1, 1))[:count]]

    def make(*terms: Term) -> Term:
        total: Term = ()
        for place, term in enumerate(terms):
            total = table.algebra.add(total, term, 10 ** place)
        return total

    found = table.applied(("sum",), make, *sources)
    for row in np.ndindex(3, LANES):
        own = [int(np.broadcast_to(one, (3, LANES))[row]) for one in sources]
        given = [table.terms[number] for number in own]
        expected = UNKNOWN if UNKNOWN in own else table.number(make(*(term for term in given if term is not None)))
        assert found[row] == expected
