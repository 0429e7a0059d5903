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
