"""Scalar code where the results of vector instructions are waited for, in place of nops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any

import asmgen as ag

Beside = Callable[[], None] | None
_DPP, _PART = 2, 1
"""Instructions between what writes a source and DPP, or a write of a part of a register (docs/facts/instructions.md section 3.3)."""
_PARTS = "v_cvt_scalef32"


def fill_waits(k: ag.TileBuilder, emit: Callable[[], None], beside: Beside) -> None:
    """What `emit` emits, with the scalar code of `beside`, which reads nothing of it, in its waits; what is left stands after it. All of
    it does where it takes scratch that `emit` uses there."""
    with k.section() as section:
        first = len(k.items)
        emit()
        count = len(k.items) - first
        if beside is not None:
            beside()
    units = section.units
    ends = accumulate(len(unit.items) for unit in units)
    own = next(number for number, end in enumerate(ends, 1) if end >= count)
    order: list[int] = []
    left = list(range(own, len(units)))
    written = [-1] * _DPP  # registers that the last instructions write; those before may write any
    for number in range(own):
        items = units[number].items
        missing = _missing(items[0], written)
        order += (*left[:missing], number)
        written = [*written, *[0] * len(left[:missing]), *(item.writes for item in items if hasattr(item, "writes"))][-_DPP:]
        left = left[missing:]
    with suppress(ag.MergeError):  # which changes nothing then
        section.merge([*order, *left])


def _missing(item: Any, written: Sequence[int]) -> int:
    """How many instructions are missing before an item, after instructions that wrote such registers, the last one last."""
    wanted = _DPP if "row_mask" in getattr(item, "modifiers", ()) else _PART if getattr(item, "name", "").startswith(_PARTS) else 0
    back = next((back for back, mask in enumerate(reversed(written)) if mask & item.reads), wanted) if wanted else 0
    return max(0, wanted - back)
