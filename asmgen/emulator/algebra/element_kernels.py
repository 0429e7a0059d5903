"""What elements are, compiled; the numpy code of `elements` is its test. Only its caller loads this file."""

from __future__ import annotations

from typing import Any

import numpy as np

from asmgen.emulator.algebra.residues import HAS_E, HAS_P, HAS_Q
from asmgen.emulator.machine.jit import njit

_HAS_Q, _HAS_P, _HAS_E = HAS_Q, HAS_P, HAS_E


@njit(cache=True)
def numbers(ids: Any, residues: Any, has: Any, encoding: Any, wanted: int, found: Any, flags: Any) -> bool:
    """Residues of elements [n] read as an encoding into `found` [3, n], and which are known into `flags`: whether there are only numbers of
    that encoding."""
    plain = True
    for place in range(len(ids)):
        element = ids[place]
        flag = has[element] if encoding[element] == wanted else np.uint8(0)
        plain &= encoding[element] == wanted and not flag & _HAS_E
        flags[place] = flag
        found[0, place] = residues[0, element] if flag & _HAS_Q else np.uint32(0)
        found[1, place] = residues[1, element] if flag & _HAS_P else np.uint32(0)
        found[2, place] = residues[2, element] if flag & _HAS_E else np.uint32(0)
    return plain
