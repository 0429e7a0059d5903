"""Which lanes have which columns of a head: those of a pair lie in one lane."""

from __future__ import annotations

from dataclasses import dataclass

import asmgen as ag

WAVES = 4
PER_LANE = 8
"""Neighbours of a lane at most: 16 bytes of 16-bit elements."""
_MOST_ACROSS = 16
_ADDRESSES = 18
"""VGPRs of lane and work-item number, of offsets into the two parts of four tensors, and 8 for what is on its way."""
_OF_CACHE = 4
"""VGPRs of where the rows of two caches lie, for two runs of neighbours."""
WORKGROUPS_PER_UNIT = 8
"""Of 4 waves: as many as registers and wave slots of a compute unit take where a wave needs 64 VGPRs."""


@dataclass(frozen=True)
class HeadShape:
    """Heads of `d` columns, of which `rotated` are rotated from column `first` on; others stand before or after them."""

    d: int
    rotated: int
    style: str
    first: int = 0

    @property
    def pairs(self) -> int:
        """Pairs of columns, each with an angle."""
        return self.rotated // 2

    @property
    def part(self) -> int:
        """Columns of a part: neox has two, the first columns of all pairs and their second ones; gptj has one."""
        return self.pairs if self.style == "neox" else self.rotated

    @property
    def parts(self) -> int:
        """How many parts there are."""
        return self.rotated // self.part

    @property
    def starts(self) -> range:
        """Their first columns."""
        return range(self.first, self.first + self.rotated, self.part)

    @property
    def rest(self) -> int:
        """Columns that are not rotated."""
        return self.d - self.rotated

    @property
    def rest_start(self) -> int:
        """The first of those."""
        return 0 if self.first else self.rotated

    @property
    def run(self) -> int:
        """Neighbours of a lane in a part: a power of two, so that no run leaves the part."""
        return min(PER_LANE, _two_of(self.part))

    @property
    def across(self) -> int:
        """Lanes that share a head: a power of two, whose runs divide the part; those of dwords divide what is copied."""
        most = min(_MOST_ACROSS, _two_of(self.part // self.run))
        return most if not self.rest else min(most, _two_of(self.rest // 2))

    @property
    def rest_run(self) -> int:
        """Neighbours of a lane in what is copied; as many as elsewhere where nothing is."""
        return min(PER_LANE, _two_of(self.rest // self.across) or self.run)

    @property
    def angles(self) -> int:
        """Angles that go with a run: one for each pair."""
        return self.run if self.style == "neox" else self.run // 2

    def vgprs(self, build: ag.Values) -> int:
        """Registers that a lane needs: of the rotated columns as memory has them, in float32, rotated, and as they are stored; of those
        that are not; of the angles' cosines, sines and their negatives, or, before these, one of them as the table has it; what addresses
        take; where heads are normalised, their weights, the other columns in float32 and as they are stored, and 4 for a sum."""
        columns, rest, pairs = self.rotated // self.across, self.rest // self.across, self.pairs // self.across
        halves = 1 if build["dtype"] == "f32" else 2
        raw_angles = 0 if build["table"] == "f32" else pairs // 2
        normalised = columns + 2 * rest + (rest // halves if halves > 1 else 0) + 4 if build["norm"] != "none" else 0
        if build["cache_dtype"] != "auto" and not normalised:
            normalised = rest + rest // 4  # in float32, and as they are stored
        return (columns // halves * halves + 2 * columns + rest // halves + 3 * pairs + raw_angles + normalised + _ADDRESSES
                + (_OF_CACHE if build["cache"] else 0))

    @property
    def wave_tokens(self) -> int:
        """Tokens that a wave has at once."""
        return ag.LANES // self.across

    @property
    def tokens(self) -> int:
        """Tokens of a workgroup."""
        return WAVES * self.wave_tokens


def _two_of(number: int) -> int:
    """The largest power of two that divides it."""
    return number & -number


def shape_of(p: ag.Values) -> HeadShape:
    """The shape of a build."""
    rotated = p["rotated"] or p["d"]
    return HeadShape(p["d"], rotated, p["style"], p["d"] - rotated if p["nope_first"] else 0)


def most_heads(p: ag.Values) -> int:
    """Heads of the tensor that has the most."""
    return max(p["h"], p["h2"]) if p["second"] else int(p["h"])


def tokens_of_grid(p: ag.Values) -> int:
    """Tokens that the grid counts for each batch, or for each sequence."""
    return int(p["max_s"] if p["varlen"] else p["s"])


def heads_of_workgroup(variant: ag.Variant, p: ag.Values) -> int:
    """Heads that a workgroup rotates one after the other, with the angles of its tokens, where workgroups fill the GPU once."""
    heads = most_heads(p)
    units = int(ag.timing(ag.DEFAULT_GPU[variant.arch]).clocks("compute_units")) * WORKGROUPS_PER_UNIT
    groups: int = -(-tokens_of_grid(p) // shape_of(p).tokens) * p["b"]
    return min(heads, max(1, -(-heads * groups // units)))
