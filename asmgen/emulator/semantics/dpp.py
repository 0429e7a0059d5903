"""DPP: which lane each lane reads its first source from (CDNA3 ISA, DPP controls)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.isa.modifiers import DPP_CONTROLS, is_set

LANES = 64


@dataclass(frozen=True)
class Dpp:
    """One control: lane n reads lane `source[n]` where `valid[n]`; `written` are the lanes that row_mask and bank_mask leave.

    `bound_zero`: a lane without a source reads 0, else it is not written. A source lane that EXEC turns off is no source either
    (unconfirmed for CDNA; so on GCN3, whose encoding this is).
    """

    source: NDArray[np.intp]
    valid: NDArray[np.bool_]
    written: NDArray[np.bool_]
    bound_zero: bool

    @property
    def everywhere(self) -> bool:
        """Whether every lane has a source and is written."""
        return bool(self.valid.all() and self.written.all())


def dpp_of(encoding: str, modifiers: Mapping[str, Any]) -> Dpp | None:
    """The control of an instruction of this encoding; None where it is no DPP form."""
    return parse_dpp(modifiers) if encoding == "DPP" else None


def parse_dpp(modifiers: Mapping[str, Any]) -> Dpp:
    """The control that an instruction's modifiers spell. Raises ValueError where there is none."""
    name = next((name for name in DPP_CONTROLS if is_set(modifiers.get(name))), None)
    if name is None:
        raise ValueError("DPP without a control")
    source, valid = _lanes(name, modifiers[name])
    row_mask, bank_mask = modifiers.get("row_mask", 15), modifiers.get("bank_mask", 15)
    lane = np.arange(LANES)
    written = (row_mask >> lane // 16 & 1).astype(bool) & (bank_mask >> lane // 4 % 4 & 1).astype(bool)
    return Dpp(source, valid, written, is_set(modifiers.get("bound_ctrl")))


def _lanes(name: str, value: Any) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    lane = np.arange(LANES)
    row, location = lane - lane % 16, lane % 16
    if name == "quad_perm":
        source = lane - lane % 4 + np.array(value)[lane % 4]
    elif name == "row_shl":
        source = np.where(location + value < 16, lane + value, -1)
    elif name == "row_shr":
        source = np.where(location - value >= 0, lane - value, -1)
    elif name == "row_ror":
        source = row + (location - value) % 16
    elif name in ("wave_shl", "wave_rol"):
        source = lane + 1 if name == "wave_shl" else (lane + 1) % LANES
    elif name in ("wave_shr", "wave_ror"):
        source = lane - 1 if name == "wave_shr" else (lane - 1) % LANES
    elif name == "row_mirror":
        source = row + 15 - location
    elif name == "row_half_mirror":
        source = lane - lane % 8 + 7 - lane % 8
    elif name == "row_newbcast":
        source = row + value
    else:  # row_bcast:15 and :31 hand the last lane of a row, or of two rows, to all that follow in the next row or half
        source = np.where(lane >= 16, row - 1, -1) if value == 15 else np.where(lane >= 32, 31, -1)
    valid = (source >= 0) & (source < LANES)
    return np.where(valid, source, 0).astype(np.intp), valid
