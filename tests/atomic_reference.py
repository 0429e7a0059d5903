"""What atomics make of memory, in Python's numbers, and operands that show it."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.machine.state import Machine
from tests.lds_model import WAVES


def signed(value: int, bits: int) -> int:
    return value - (value >> bits - 1 << bits)


def as_float(value: int, bits: int) -> float:
    code = {16: "e", 32: "f", 64: "d"}[bits]
    return struct.unpack(f"<{code}", value.to_bytes(bits // 8, "little"))[0]


def float_bits(value: float, bits: int) -> int:
    """Rounded to nearest even; overflow is infinity, an invented NaN the positive quiet one."""
    if math.isnan(value):
        return {16: 0x7E00, 32: 0x7FC00000, 64: 0x7FF8 << 48}[bits]
    code = {16: "e", 32: "f", 64: "d"}[bits]
    try:
        return int.from_bytes(struct.pack(f"<{code}", value), "little")
    except OverflowError:
        return int.from_bytes(struct.pack(f"<{code}", math.copysign(math.inf, value)), "little")


def add_pair(kind: str, old: int, x: int) -> int:
    """Two halves added; a sum of bf16 or f16 is exact in a double, and rounded once."""
    result = 0
    for shift in (0, 16):
        first, second = old >> shift & 0xFFFF, x >> shift & 0xFFFF
        if kind == "f16":
            half = float_bits(as_float(first, 16) + as_float(second, 16), 16)
        else:
            total = as_float(first << 16, 32) + as_float(second << 16, 32)
            whole = float_bits(total, 64)
            # To nearest even of 8 bits: a double's pattern cut at 45 bits, exponents moved by way of an f32 that is exact for the rest.
            cut = whole & ~((1 << 45) - 1)
            rest = whole & (1 << 45) - 1
            if not math.isnan(total) and not math.isinf(total) and abs(total) >= 2.0**-126:
                cut += (1 << 45) if rest > 1 << 44 or rest == 1 << 44 and cut >> 45 & 1 else 0
            half = float_bits(as_float(cut, 64), 32) >> 16
        result |= half << shift
    return result


def changed(operation: str, kind: str, old: int, x: int, y: int) -> int:
    """An atomic's result by the ISA's pseudo-code. `x` and `y` are data0 and data1."""
    bits = int(kind.lstrip("uibf"))
    top = (1 << bits) - 1
    if operation == "pk_add_f16":
        return add_pair("f16", old, x)
    if operation == "pk_add_bf16":
        return add_pair("bf16", old, x)
    if kind[0] == "f":
        first, second = as_float(old, bits), as_float(x, bits)
        if operation == "add":
            return float_bits(first + second, bits)
        if operation == "cmpst":
            return y if first == second else old
        return x if (second < first if operation == "min" else second > first) else old
    if operation in ("min", "max"):
        key: Callable[[int], int] = (lambda n: signed(n, bits)) if kind[0] == "i" else (lambda n: n)
        return (min if operation == "min" else max)(old, x, key=key)
    if operation == "condxchg32":
        low = x & 0x7FFFFFFF if x >> 31 & 1 else old & 0xFFFFFFFF
        high = x >> 32 & 0x7FFFFFFF if x >> 63 else old >> 32
        return low | high << 32
    return {"add": old + x, "sub": old - x, "rsub": x - old, "inc": 0 if old >= x else old + 1,
            "dec": x if old == 0 or old > x else old - 1,
            "and": old & x, "or": old | x, "xor": old ^ x, "mskor": old & ~x | y, "cmpst": y if old == x else old, "wrxchg": x,
            "wrap": old - x if old >= x else old + y}[operation] & top


def moderate(machine: Machine, operation: str, kind: str, rng: np.random.Generator) -> None:
    """Values for which something happens: small integers for counters, equal ones to compare, floats without NaN payloads."""
    lds = machine.lds.reshape(-1)
    if kind[0] == "f" or operation.startswith("pk"):
        element = {"pk_add_f16": np.float16, "pk_add_bf16": np.float32}.get(operation, np.float64 if kind.endswith("64") else np.float32)
        special = np.array([np.inf, -np.inf, 0.0, -0.0, 1e-7, 3e38 if element != np.float16 else 6e4], element)

        def some(count: int) -> NDArray[np.uint8]:
            values = rng.standard_normal(count).astype(element)
            values[::9] = rng.choice(special, len(values[::9]))
            if operation == "pk_add_bf16":
                return np.ascontiguousarray(values.view(np.uint32) >> np.uint32(16), np.uint32).astype(np.uint16).view(np.uint8)
            return values.view(np.uint8)

        size = 2 if operation.startswith("pk") else np.dtype(element).itemsize
        lds[:] = some(len(lds) // size)
        data = some(2 * WAVES * 64 * 8 // size).view(np.uint32).reshape(2, WAVES, 64, 2)
        for number, register in enumerate((10, 14)):
            machine.vector[register], machine.vector[register + 1] = data[number, ..., 0], data[number, ..., 1]
    if operation in ("inc", "dec", "wrap", "cmpst"):
        size = int(kind.lstrip("uibf")) // 8
        small = rng.integers(0, 5, len(lds) // size).astype(f"u{size}")
        if kind[0] == "f":
            small = small.astype(f"f{size}").view(f"u{size}")
        lds[:] = small.view(np.uint8)
        for register in (10, 14):
            values = rng.integers(0, 5, (WAVES, 64)).astype(f"u{size}")
            if kind[0] == "f":
                values = values.astype(f"f{size}").view(f"u{size}")
            machine.vector[register] = values & values.dtype.type(0xFFFFFFFF)
            machine.vector[register + 1] = (values.astype(np.uint64) >> np.uint64(32)) if size == 8 else 0
