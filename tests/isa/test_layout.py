"""The algebra of linear layouts: products, composition, inverses, quotients, renaming; against plain functions."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asmgen.isa.layout import Layout, LayoutError, from_bits, identity, product, quotient, reach, renaming, strided, zeros

A_16X16X32 = product(identity("item", "k", 8), identity("lane", "i", 16), identity("lane", "k", 4))
FACTORS = st.lists(st.tuples(st.sampled_from(["item", "lane", "wave"]), st.sampled_from(["row", "column"]),
                             st.sampled_from([1, 2, 3, 4, 6])), min_size=1, max_size=4)


def made(factors: list[tuple[str, str, int]]) -> Layout:
    return product(*(identity(*factor) for factor in factors))


def by_hand(factors: list[tuple[str, str, int]], **values: int) -> dict[str, int]:
    """Each factor takes the next digit of its input to the next digit of its output."""
    outputs, weights, rest = {}, {}, dict(values)
    for name, output, size in factors:
        rest[name], digit = divmod(rest.get(name, 0), size)
        outputs[output] = outputs.get(output, 0) + digit * weights.get(output, 1)
        weights[output] = weights.get(output, 1) * size
    return outputs


@settings(max_examples=40, deadline=None, derandomize=True)
@given(FACTORS)
def test_products_count_copies(factors: list[tuple[str, str, int]]) -> None:
    layout = made(factors)
    for point, output in layout.points():
        assert output == by_hand(factors, **point)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(FACTORS)
def test_products_of_identities_have_inverses(factors: list[tuple[str, str, int]]) -> None:
    layout = made(factors)
    assert layout.is_bijective()
    inverse = layout.inverse()
    for point, output in layout.points():
        assert inverse(**output) == point
    assert inverse.inverse().same_map(layout)


def random_bits(numbers: list[int], sizes: tuple[int, int]) -> Layout:
    """A XOR layout from 6 lane bits and 2 item bits to two outputs of `sizes` bits."""
    rows, columns = sizes
    vectors = [{"row": number % (1 << rows), "column": (number >> rows) % (1 << columns)} for number in numbers]
    return from_bits({"lane": vectors[:6], "item": vectors[6:]}, {"row": 1 << rows, "column": 1 << columns})


VECTORS = st.lists(st.integers(0, 255), min_size=8, max_size=8)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(VECTORS, VECTORS)
def test_composition_is_one_after_the_other(first: list[int], second: list[int]) -> None:
    inner = random_bits(first, (4, 4))
    outer = from_bits({"column": [{"offset": number} for number in second[:4]], "row": [{"offset": number} for number in second[4:]]},
                      {"offset": 256})
    both = inner.then(outer)
    for point, middle in inner.points():
        assert both(**point) == outer(**middle)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(VECTORS, st.integers(1, 7))
def test_right_inverse_and_rank(numbers: list[int], rows: int) -> None:
    layout = random_bits(numbers, (rows, 8 - rows))
    reached = {tuple(output.values()) for _, output in layout.points()}
    assert 1 << layout.rank() == len(reached)
    if layout.rank() < 8:
        with pytest.raises(LayoutError, match="no inverse"):
            layout.inverse()
        return
    inverse = layout.inverse()
    assert all(layout(**inverse(**output)) == output for _, output in layout.points())


def test_right_inverse_of_a_broadcast_takes_the_lowest_input() -> None:
    layout = zeros("wave", 4) * identity("lane", "i", 16) * zeros("lane", 2) * identity("lane", "i", 2)
    inverse = layout.inverse()
    assert inverse(i=17) == {"wave": 0, "lane": 33}
    assert layout(**inverse(i=31)) == {"i": 31}


def test_counts_go_through_rows_that_are_no_power_of_two() -> None:
    """192 columns: 64 lanes by 3 items; rows of 192 elements; a XOR swizzle of 8 chunks within 64 columns."""
    tile = product(identity("lane", "column", 64), identity("item", "column", 3), identity("item", "row", 16))
    swizzle = product(from_bits({"column": [{"column": 1 << bit} for bit in range(6)],
                                 "row": [{"row": 1 << bit, "column": 8 << bit if bit < 3 else 0} for bit in range(4)]},
                                {"column": 64, "row": 16}), identity("column", "column", 3))
    dense = identity("column", "offset", 192) * identity("row", "offset", 16)
    whole = tile.then(swizzle).then(dense)
    for lane, item in itertools.product(range(64), range(48)):
        row, column = item // 3, 64 * (item % 3) + lane
        assert whole(lane=lane, item=item) == {"offset": row * 192 + (column ^ row % 8 * 8)}
    inverse = whole.inverse()
    assert all(inverse(**output) == point for point, output in whole.points())
    with pytest.raises(LayoutError, match="with counts has no rank"):
        whole.rank()


@settings(max_examples=40, deadline=None, derandomize=True)
@given(FACTORS, FACTORS)
def test_quotient_undoes_the_product(part: list[tuple[str, str, int]], arrangement: list[tuple[str, str, int]]) -> None:
    a, b = made(part), made(arrangement)
    found = quotient(a * b, a)
    assert (a * found).same_map(a * b)


@pytest.mark.parametrize(("whole", "words"), [
    (identity("item", "k", 8) * identity("lane", "i", 16), "no multiple"),
    (identity("item", "k", 4) * identity("lane", "i", 16) * identity("item", "k", 8) * identity("lane", "k", 4), "no multiple|differs"),
    (identity("lane", "i", 16) * identity("lane", "k", 32) * identity("item", "k", 8), "no multiple|differs"),
])
def test_no_quotient(whole: Layout, words: str) -> None:
    with pytest.raises(LayoutError, match=f"no arrangement of copies.*({words})"):
        quotient(whole, A_16X16X32)


def test_renaming_of_whole_registers_is_free() -> None:
    """32 k of a lane in another order: whole registers (2 items of 16 bits) may trade places, halves of registers may not."""
    runs = product(identity("item", "k", 4), identity("lane", "i", 16), identity("lane", "k", 4), identity("item", "k", 2))
    swapped = product(zeros("item", 1), from_bits({"item": [{"k": 1}, {"k": 4}, {"k": 2}], "lane": [{"i": 1 << bit} for bit in range(4)]
                                                   + [{"k": 8}, {"k": 16}]}, {"k": 32, "i": 16}))
    assert renaming(A_16X16X32, A_16X16X32) == tuple(range(8))
    assert renaming(A_16X16X32, swapped, together=2) == (0, 2, 1, 3)
    assert renaming(A_16X16X32, swapped, together=4) is None
    assert renaming(A_16X16X32, runs) is None  # other lanes
    assert renaming(A_16X16X32, A_16X16X32.renamed(i="j")) is None
    with pytest.raises(LayoutError, match="cannot be compared"):
        renaming(A_16X16X32, A_16X16X32 * identity("item", "i", 2))


def test_reach_says_how_far_data_moves() -> None:
    runs = product(identity("item", "k", 4), identity("lane", "i", 16), identity("lane", "k", 4), identity("item", "k", 2))
    assert reach(A_16X16X32, A_16X16X32) == "item"
    assert reach(A_16X16X32, runs) == "lane"
    two = A_16X16X32 * identity("wave", "i", 2) * identity("item", "i", 2)
    other = A_16X16X32 * identity("item", "i", 2) * identity("wave", "i", 2)
    assert reach(two, other) == "wave"


def test_same_map_however_the_digits_are_cut() -> None:
    assert identity("item", "k", 6).same_map(identity("item", "k", 3) * identity("item", "k", 2))
    assert not identity("item", "k", 6).same_map(identity("item", "k", 3) * identity("item", "k", 2).renamed(k="i"))
    assert not (identity("a", "k", 3) * identity("b", "k", 3)).same_map(identity("b", "k", 3) * identity("a", "k", 3))


XOR = from_bits({"row": [{"offset": 3}], "column": [{"offset": 1}, {"offset": 2}]}, {"offset": 4})


@pytest.mark.parametrize(("call", "words"), [
    (lambda: A_16X16X32(lane=64), "lane 64 does not exist"),
    (lambda: A_16X16X32(register=1), "no input register"),
    (lambda: identity("item", "k", 0), "at least 1"),
    (lambda: strided("item", 4, "k", 2).inverse(), "no input reaches bit 0 of k"),
    (lambda: strided("item", 3, "k", 2).inverse(), "no inverse"),
    (lambda: strided("item", 3, "k", 3).inverse(), "no power of two"),
    (lambda: identity("item", "k", 64).then(identity("k", "offset", 32)), "k goes up to 63"),
    (lambda: identity("item", "k", 6).then(identity("j", "offset", 8)), "no such input"),
    (lambda: XOR.then(identity("offset", "byte", 4).then(strided("byte", 4, "far", 3))), "adds for it"),
    (lambda: identity("item", "offset", 3) * XOR, "cannot count copies"),
    (lambda: (identity("item", "k", 3) * identity("lane", "k", 3)).then(identity("k", "a", 2) * identity("k", "b", 5)), "carry"),
    (lambda: product(strided("x", 3, "o", 1, total=4), XOR.renamed(offset="o")), "XORed"),
])
def test_errors_are_sentences(call: Callable[[], object], words: str) -> None:
    with pytest.raises(LayoutError, match=words):
        call()


def test_layouts_load_no_numpy() -> None:
    modules = ("layout", "placement", "layouts_mfma", "layouts_lds", "mfmaoperands", "lds", "bankcost")
    code = f"import sys; import {', '.join('asmgen.isa.' + name for name in modules)}; print('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
