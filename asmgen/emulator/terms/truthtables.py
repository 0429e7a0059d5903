"""Truth tables of three bits as up to two of `and`, `or` and `xor`, each bit taken once: v_bitop3 has such functions or others.

Row 4 a + 2 b + c of a table is its bit of that number (CDNA4 ISA, V_BITOP3_B32).
"""

from __future__ import annotations

import operator
from functools import lru_cache
from itertools import product
from typing import Any

Expression = Any
"""The number of a source, ("not", expression), or (name, expression, expression)."""
_ALL = 0xFF
_SOURCES = (0xF0, 0xCC, 0xAA)
"""The tables of the sources themselves."""
_OPERATIONS = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}


def expression_of(table: int) -> Expression | None:
    """With the fewest operations; None for a constant, and for what is no such function, as a choice or a majority."""
    return _known().get(table)


@lru_cache(maxsize=1)
def _known() -> dict[int, Expression]:
    found: dict[int, Expression] = {}
    alone = [{table: number, _ALL ^ table: ("not", number)} for number, table in enumerate(_SOURCES)]
    for one in alone:
        found |= one
    for number in range(3):
        pairs = dict[int, Expression]()
        first, second = (one for place, one in enumerate(alone) if place != number)
        for (x, left), (y, right) in product(first.items(), second.items()):
            _join(pairs, x, left, y, right)
        for table, pair in pairs.items():
            found.setdefault(table, pair)
        for (x, left), (y, right) in product(pairs.items(), alone[number].items()):
            _join(found, x, left, y, right)
    return found


def _join(into: dict[int, Expression], x: int, left: Expression, y: int, right: Expression) -> None:
    """What two tables give together, where nothing gave that before, and its contrary."""
    for name, act in _OPERATIONS.items():
        made = name, left, right
        into.setdefault(act(x, y), made)
        into.setdefault(_ALL ^ act(x, y), ("not", made))
