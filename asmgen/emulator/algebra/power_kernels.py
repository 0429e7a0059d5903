"""Powers modulo a prime, compiled; the numpy code of `residues` is their test. Only their caller loads this file."""

from __future__ import annotations

from typing import Any

import numpy as np

from asmgen.emulator.machine.jit import njit


@njit(cache=True)
def powers(base: Any, exponent: Any, modulus: Any, result: Any) -> None:
    """base**exponent modulo a prime below 2**32, arrays [n]."""
    for place in range(len(base)):
        square, left, found = base[place] % modulus, exponent[place], np.uint64(1)
        while left:
            if left & np.uint64(1):
                found = found * square % modulus
            square = square * square % modulus
            left >>= np.uint64(1)
        result[place] = found


@njit(cache=True)
def powers_of_two(exponents: Any, tables: Any, bits: int, modulus: Any, result: Any) -> None:
    """2**x modulo a prime, x [n] by its parts of so many bits: `tables` [parts, 2**bits] has the powers of each part."""
    mask, by = np.uint64((1 << bits) - 1), np.uint64(bits)
    for place in range(len(exponents)):
        left = exponents[place]
        found = tables[0, left & mask]
        for part in range(1, len(tables)):
            left >>= by
            found = found * tables[part, left & mask] % modulus
        result[place] = found


@njit(cache=True)
def inverses(numbers: Any, modulus: Any, result: Any) -> None:
    """1/x modulo a prime below 2**32, x [n]; of 0 it is 0. One power for all: the inverse of the product of those before a place
    and of its own number is taken from that of one more."""
    product = np.uint64(1)
    for place in range(len(numbers)):
        number = numbers[place] % modulus
        result[place] = product
        if number:
            product = product * number % modulus
    square, left, inverse = product, modulus - np.uint64(2), np.uint64(1)
    while left:
        if left & np.uint64(1):
            inverse = inverse * square % modulus
        square = square * square % modulus
        left >>= np.uint64(1)
    for place in range(len(numbers) - 1, -1, -1):
        number = numbers[place] % modulus
        if number:
            result[place] = result[place] * inverse % modulus
            inverse = inverse * number % modulus
        else:
            result[place] = np.uint64(0)
