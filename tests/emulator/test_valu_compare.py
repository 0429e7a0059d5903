"""Comparisons and classes of the vector ALU against fractions and integers, and the EXEC that v_cmpx writes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from asmgen.isa.registers import exec_, s, v
from tests.emulator_harness import MODE_DEFAULT, MODE_KEEP, run
from tests.float_cases import Mode
from tests.softfloat import KINDS, Kind
from tests.valu_cases import run_case

# Comparisons.

RELATIONS: dict[str, Callable[[Any, Any, bool], bool]] = {
    "f": lambda a, b, o: False, "tru": lambda a, b, o: True, "lt": lambda a, b, o: o and a < b, "eq": lambda a, b, o: o and a == b,
    "le": lambda a, b, o: o and a <= b, "gt": lambda a, b, o: o and a > b, "lg": lambda a, b, o: o and a != b, "ge": lambda a, b,
    o: o and a >= b,
    "o": lambda a, b, o: o, "u": lambda a, b, o: not o, "nge": lambda a, b, o: not (o and a >= b), "nlg": lambda a, b,
    o: not (o and a != b),
    "ngt": lambda a, b, o: not (o and a > b), "nle": lambda a, b, o: not (o and a <= b), "neq": lambda a, b, o: not (o and a == b),
    "nlt": lambda a, b, o: not (o and a < b),
}


def number(kind: Kind, pattern: int) -> Any:
    if kind.is_inf(pattern):
        return -math.inf if kind.negative(pattern) else math.inf
    return kind.value(pattern)


@pytest.mark.parametrize("name", ["f16", "f32", "f64"])
@pytest.mark.parametrize("relation", sorted(RELATIONS))
def test_compare_floats(relation: str, name: str) -> None:
    kind = KINDS[name]
    for mode in (MODE_DEFAULT, MODE_KEEP, 0x300):
        settled = Mode(mode, kind)

        def reference(a: int, b: int, settled: Mode = settled) -> bool:
            a, b = (kind.flush(x, not settled.keep_in) for x in (a, b))
            ordered = not (kind.is_nan(a) or kind.is_nan(b))
            return RELATIONS[relation](number(kind, a), number(kind, b), True) if ordered else RELATIONS[relation](0, 0, False)

        run_case("gfx942", f"v_cmp_{relation}_{name}", reference, mode=mode)
    run_case("gfx950", f"v_cmp_{relation}_{name}", reference, mode=0x300, encoding="VOPC")


@pytest.mark.parametrize("kind", ["i16", "u16", "i32", "u32", "i64", "u64"])
@pytest.mark.parametrize("relation", ["f", "lt", "eq", "le", "gt", "ne", "ge", "t"])
def test_compare_integers(relation: str, kind: str) -> None:
    bits = int(kind[1:])

    def reference(a: int, b: int) -> bool:
        if kind[0] == "i":
            a, b = (x - (1 << bits) if x >> bits - 1 else x for x in (a, b))
        return {"f": False, "t": True, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b, "eq": a == b, "ne": a != b}[relation]

    small = [0, 1, 5, (1 << bits) - 1, (1 << bits) - 5, 1 << bits - 1]
    run_case("gfx942", f"v_cmp_{relation}_{kind}", reference, given={0: small, 1: small})
    run_case("gfx950", f"v_cmp_{relation}_{kind}", reference, encoding="VOPC")


@pytest.mark.parametrize("name", ["f16", "f32", "f64"])
def test_compare_class(name: str) -> None:
    kind = KINDS[name]

    def reference(a: int, classes: int) -> bool:
        negative = kind.negative(a)
        if kind.is_nan(a):
            bit = 0 if kind.is_signaling(a) else 1
        elif kind.is_inf(a):
            bit = 2 if negative else 9
        elif kind.magnitude(a) == 0:
            bit = 5 if negative else 6
        elif kind.is_denormal(a):
            bit = 4 if negative else 7
        else:
            bit = 3 if negative else 8
        return bool(classes >> bit & 1)

    for mode in (MODE_DEFAULT, 0x300):
        run_case("gfx942", f"v_cmp_class_{name}", reference, mode=mode, given={1: [1 << n for n in range(10)] + [0x3FF, 0x1F8, 0x264]})


@pytest.mark.parametrize("name", ["v_cmpx_lt_f32", "v_cmpx_class_f32", "v_cmpx_ge_u16", "v_cmpx_eq_i64"])
def test_cmpx_writes_exec_too(name: str) -> None:
    mask = 0xFF00FF00FF00FFFF
    lanes = np.arange(64, dtype=np.uint32)
    kind = name.rsplit("_", 1)[1]
    if kind == "f32":
        left: Any = lanes.astype(np.float32)
        right: Any = np.full(64, 1 << 8, np.uint32) if "class" in name else np.full(64, 20, np.float32)
        expected = sum(1 << n for n in range(64) if mask >> n & 1 and (n >= 1 if "class" in name else n < 20))
    elif kind == "u16":
        left, right = lanes, np.full(64, 20, np.uint32)
        expected = sum(1 << n for n in range(64) if mask >> n & 1 and n >= 20)
    else:
        left, right = lanes.astype(np.int64), np.where(lanes % 3 == 0, lanes, 0).astype(np.int64)
        expected = sum(1 << n for n in range(64) if mask >> n & 1 and n % 3 == 0)
    first, second = (v[0:1], v[2:3]) if kind == "i64" else (v[0], v[2])
    result = run("gfx942", lambda k: (k.emit(name, s[10:11], first, second), k.v_mov_b32(v[9], 7)), vgprs={0: left, 2: right},
                 exec_mask=mask)
    assert result.exec_mask == result.s64(10) == expected
    assert [int(x) for x in result.v(9)[0]] == [7 if expected >> n & 1 else 0 for n in range(64)]
    assert exec_.count == 2
