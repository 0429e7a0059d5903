"""What launches give to waves, as numbers of the variables of terms, in many samples at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.terms.polynomials import WORD, Polynomials
from asmgen.tools.proofs.exactnumbers import Numbers
from asmgen.tools.proofs.termvalues import word_of

_POINTERS, APART = 1 << 44, 1 << 40
"""Where the first tensor begins, and how far tensors are apart."""
_LOWER = (0, WORD - 4096)
"""The lower words of addresses at which tensors begin: with the latter, the upper word needs a carry at once."""


def given_numbers(algebra: Polynomials, launches: Sequence[Mapping[str, Any]], numbers: NDArray[np.int64], groups: NDArray[np.int64],
                  items: NDArray[np.int64], begins: NDArray[np.int64]) -> dict[int, Numbers]:
    """By variable. Of each sample: the number of its launch, the workgroup's ids, the work-item, and which of two places tensors begin at.
    What no launch says has none."""
    given, pointers = dict[int, Numbers](), 0
    for number, variable in enumerate(algebra.variables):
        name = variable.name
        if not variable.given:
            continue
        if name.startswith("workgroup."):
            given[number] = groups[:, "xyz".index(name[-1])]
        elif name.startswith("item."):
            given[number] = items >> int(name.removeprefix("item.")) & 1
        elif variable.high >= WORD:
            pointers += 1
            given[number] = _POINTERS + pointers * APART + np.array(_LOWER)[begins]
        elif not any(isinstance(launch.get(name, ""), str) for launch in launches):
            given[number] = np.array([word_of(launch[name]) for launch in launches], np.int64)[numbers]
    return given
