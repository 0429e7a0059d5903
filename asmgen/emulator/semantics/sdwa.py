"""SDWA: parts of registers as sources and destination (CDNA3 ISA, SDWA)."""

from __future__ import annotations

from typing import Any

import numpy as np

Values = Any

_FIELDS = {"BYTE_0": (0, 8), "BYTE_1": (8, 8), "BYTE_2": (16, 8), "BYTE_3": (24, 8), "WORD_0": (0, 16), "WORD_1": (16, 16),
           "DWORD": (0, 32)}


def select(words: Values, part: str, sign: bool) -> Values:
    """A byte or word of registers, moved to the bottom and zero- or sign-extended."""
    low, size = _FIELDS[part]
    if size == 32:
        return words
    up, down = np.uint32(32 - size - low), np.uint32(32 - size)
    raised = np.asarray(words) << up
    return (raised.view(np.int32) >> down.astype(np.int32)).view(np.uint32) if sign else raised >> down


def insert(old: Values, result: Values, part: str, unused: str) -> Values:
    """Registers with the low bits of `result` in `part`; the rest is 0 (PAD), the sign above and 0 below (SEXT), or kept (PRESERVE)."""
    low, size = _FIELDS[part]
    if size == 32:
        return result
    field = np.uint32((1 << size) - 1)
    placed = (np.asarray(result) & field) << np.uint32(low)
    if unused == "UNUSED_PRESERVE":
        return np.asarray(old) & ~(field << np.uint32(low)) | placed
    if unused == "UNUSED_SEXT":
        up = np.uint32(32 - size)
        extended = ((np.asarray(result) << up).view(np.int32) >> up.astype(np.int32)).view(np.uint32)
        return extended << np.uint32(low)
    return placed
