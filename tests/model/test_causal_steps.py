"""Steps of causal attention of anyone's code, from the problem and the first workgroup."""

from __future__ import annotations

import numpy as np
import pytest

from asmgen.model.causalsteps import causal_steps

SIZES = {"b": 2, "hq": 2, "hkv": 2, "sq": 1024, "sk": 1024}
PAIR = 4.0 * 128
ROWS = 256  # of a workgroup: 4 tiles for each of 4 heads, whose queries see 256, 512, 768 and 1024 keys at most


def flops(keys: int, rows: int = ROWS) -> float:
    return PAIR * rows * keys


@pytest.mark.parametrize(("first", "tiles"), [(1024, [16, 12, 8, 4]), (960, [16, 12, 8, 4]), (256, [4, 8, 12, 16]), (300, [4, 8, 12, 16])])
def test_the_first_workgroup_tells_the_order(first: int, tiles: list[int]) -> None:
    """Steps of 64 keys. Heads one after the other, side by side, and where nobody knows them: side by side too."""
    beside = [one for one in tiles for _ in range(4)]
    for heads, expected in ((np.repeat(range(4), 4), tiles * 4), ([0, 1, 2, 3] * 4, beside), ([0, 0, 1, 1] * 4, beside), ((), beside),
                            ([0] * 4 + [1] * 4, tiles * 4), ([0, 1], beside)):
        found = causal_steps(SIZES, PAIR, False, 16, flops(first), list(heads))
        assert found is not None and found.traced == tiles[0] and found.flops == flops(64) and found.each.tolist() == expected


def test_workgroups_that_are_all_alike_have_no_steps_of_their_own() -> None:
    """A tile from either end: 512 rows that see 640 keys on average; and one tile for each head, or another number than the heads'."""
    assert causal_steps(SIZES, PAIR, False, 16, flops(640), ()) is None
    assert causal_steps(SIZES, PAIR, False, 4, flops(1024, 1024), ()) is None
    assert causal_steps(SIZES, PAIR, False, 15, flops(1024), ()) is None


def test_more_keys_than_queries_and_fewer() -> None:
    """The mask ends at the last key of the last query; queries that see none take a step."""
    more = causal_steps({**SIZES, "sk": 2048}, PAIR, False, 16, flops(2048), ())
    fewer = causal_steps({**SIZES, "sk": 512}, PAIR, False, 16, flops(512), ())
    assert more is not None and more.each[::4].tolist() == [32, 28, 24, 20]
    assert fewer is not None and fewer.each[::4].tolist() == [8, 4, 1, 1]


def test_heads_that_share_keys() -> None:
    """Two heads of queries for each head of keys: eight workgroups with the same keys, two of each tile."""
    found = causal_steps({**SIZES, "hkv": 1}, PAIR, False, 16, flops(1024), [0] * 8 + [1] * 8)
    assert found is not None and found.each.tolist() == [16, 16, 12, 12, 8, 8, 4, 4] * 2


def test_gradients_have_the_queries_that_see_their_keys() -> None:
    """The first keys of a head are seen by all queries. Five products in place of two; sizes that are no multiples of the rows."""
    work = PAIR * 5 / 2
    found = causal_steps(SIZES, work, True, 16, work * ROWS * 1024, ())
    assert found is not None and found.each[::4].tolist() == [16, 12, 8, 4] and found.flops == work * ROWS * 64
    odd = causal_steps({**SIZES, "sq": 2048, "sk": 1000}, work, True, 16, work * 250 * 1000, ())
    assert odd is not None and odd.each[::4].tolist() == [16, 12, 8, 4]  # 1000, 750, 500, 250 queries
    more = causal_steps({**SIZES, "sk": 2048}, work, True, 16, work * 512 * 1024, ())
    assert more is not None and more.each[::4].tolist() == [16, 16, 16, 8]
    assert causal_steps(SIZES, PAIR, False, 16, work * ROWS * 1024, ()) is None  # gradients that nobody has called so
