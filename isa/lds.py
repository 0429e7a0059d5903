"""LDS banks and phases: which lanes of a wave are served together. `bankcost` counts with it, `lds_arrays` for the emulator.

Source: docs/facts/microarchitecture.md section 2.4 (rocRoller's LDS model, HipKittens table 5). A row is marked assumed where nobody
measured or documented it; whoever prints a count says so. Nothing here was measured by this project.

A bank is four bytes wide: dword d is in bank d % banks. A phase takes as many cycles as the fullest bank holds *distinct* dwords.
Lanes that read one dword share it (broadcast). Lanes that write one dword share it too: the model counts dwords touched, as its
sources do, and no source says what such a write costs.
"""

from __future__ import annotations

import functools
import re

from asmgen.isa.arch import LANES as LANES  # for those who enumerate phases
from asmgen.isa.arch import architecture
from asmgen.isa.errors import AsmgenError
from asmgen.isa.records import dataclass

Phases = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class PhaseRule:
    """How one LDS instruction of an architecture is served: `banks`, and the lanes of each phase (phases have one size).

    `assumed` is True where banks or phases are nobody's measurement or documentation.
    """

    arch: str
    op: str
    banks: int
    phases: Phases
    source: str
    assumed: bool = False


def _in_order(lanes: int) -> Phases:
    """Phases of `lanes` consecutive lanes."""
    return tuple(tuple(range(first, first + lanes)) for first in range(0, LANES, lanes))


def _both_halves(*phases: tuple[int, ...]) -> Phases:
    """Phases of lanes 0 to 31, then the same of lanes 32 to 63."""
    return phases + tuple(tuple(lane + 32 for lane in phase) for phase in phases)


def _lanes(*ranges: tuple[int, int]) -> tuple[int, ...]:
    return tuple(lane for first, last in ranges for lane in range(first, last + 1))


_EIGHT_OF_EIGHT = _both_halves(_lanes((0, 3), (20, 23)), _lanes((4, 7), (16, 19)), _lanes((8, 11), (28, 31)), _lanes((12, 15), (24, 27)))
_FOUR_OF_SIXTEEN = _both_halves(_lanes((0, 3), (12, 15), (20, 27)), _lanes((4, 11), (16, 19), (28, 31)))

_ROCROLLER = "rocRoller LDS model"
_KITTENS = "HipKittens table 5"
_BOTH = f"{_ROCROLLER}, {_KITTENS}"
_PAPER = "HipKittens appendix D.1"
_BY_ANALOGY = f"as ds_read_b64_tr_b16 ({_PAPER}); this width unconfirmed"

RULES: tuple[PhaseRule, ...] = (
    PhaseRule("gfx950", "ds_read_b32", 32, _in_order(64), _ROCROLLER),
    PhaseRule("gfx950", "ds_read_b64", 64, _in_order(32), _BOTH),
    PhaseRule("gfx950", "ds_read_b96", 32, _EIGHT_OF_EIGHT, _BOTH),
    PhaseRule("gfx950", "ds_read_b128", 64, _FOUR_OF_SIXTEEN, _BOTH),
    PhaseRule("gfx950", "ds_read_b64_tr_b16", 64, _in_order(32), _PAPER),
    PhaseRule("gfx950", "ds_read_b64_tr_b8", 64, _in_order(32), _BY_ANALOGY, assumed=True),
    PhaseRule("gfx950", "ds_read_b64_tr_b4", 64, _in_order(32), _BY_ANALOGY, assumed=True),
    PhaseRule("gfx950", "ds_read_b96_tr_b6", 64, _in_order(32), _BY_ANALOGY, assumed=True),
    PhaseRule("gfx950", "ds_write_b64", 32, _in_order(16), _BOTH),
    PhaseRule("gfx950", "ds_write_b128", 32, _in_order(8), _ROCROLLER),
    PhaseRule("gfx942", "ds_read_b32", 32, _in_order(32), _ROCROLLER),
    PhaseRule("gfx942", "ds_read_b64", 32, _in_order(16), _ROCROLLER),
    PhaseRule("gfx942", "ds_read_b96", 32, _EIGHT_OF_EIGHT, "rocRoller: gfx950 kept gfx942's b96 rate; lanes as on gfx950", assumed=True),
    PhaseRule("gfx942", "ds_read_b128", 32, _EIGHT_OF_EIGHT, _ROCROLLER),
    PhaseRule("gfx942", "ds_read2_b64", 32, _in_order(8), f"eight phases: {_ROCROLLER}; which lanes: in order", assumed=True),
    PhaseRule("gfx942", "ds_write_b128", 32, _in_order(8), _ROCROLLER),
)
"""Every row of section 2.4 that names an instruction; `rule` gives the assumed one of any other."""

_LISTED = {(row.arch, row.op): row for row in RULES}
_WIDTH = re.compile(r"_(?:b|u|i|f|bf)(\d+)")
_TWO_ADDRESSES = re.compile(r"ds_(?:read|write|wrxchg)2")
# They pass through the LDS unit without touching LDS memory at addresses of the lanes.
_NO_LANE_ADDRESS = re.compile(r"ds_(?:b?permute|swizzle|nop|gws|append|consume|ordered_count)")


def addresses_per_lane(op: str) -> int:
    """2 for read2, write2 and wrxchg2 (with or without st64), else 1."""
    return 2 if _TWO_ADDRESSES.match(op) else 1


@functools.cache
def rule(arch: str, op: str) -> PhaseRule:
    """The phases of an LDS instruction; one that section 2.4 does not list gets groups of 64 dwords in lane order, marked assumed.

    Such a group is 256 / bytes-per-lane lanes, for 96 bits the 16 that divide a wave. Its banks are 32 on both architectures,
    as only wide reads are documented to see 64. Raises AsmgenError for an instruction that has no lane addresses
    in LDS or does not exist there, ValueError for an unknown architecture.
    """
    architecture(arch)
    listed = _LISTED.get((arch, op))
    if listed is not None:
        return listed
    width = _WIDTH.search(op)
    if not op.startswith("ds_") or _NO_LANE_ADDRESS.match(op) or width is None:
        raise AsmgenError(f"{op} does not access LDS memory at addresses of the lanes, so it has no bank conflicts to count")
    if "_tr_" in op:
        raise AsmgenError(f"{op} does not exist on {arch}")
    dwords = max(1, int(width[1]) // 32) * addresses_per_lane(op)
    lanes = next(count for count in (64, 32, 16, 8) if count * dwords <= 64)
    return PhaseRule(arch, op, 32, _in_order(lanes), "groups of 64 dwords in lane order, nobody's measurement", assumed=True)
