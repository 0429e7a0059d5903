"""Stream-K in numbers: which steps of which tiles each workgroup makes (`streamed` has the code).

G workgroups make T tiles of D. As many tiles as are whole rounds of G are made whole, as by `persistent`; the steps of the T mod G others
are shared evenly: each workgroup has a range of them, in the order of tiles and of K, that begins and ends inside tiles. What a range has
of a tile is a whole tile, or a part, whose sums go in float32 to a slot of a workspace. A second kernel adds the parts of a tile in the
order of K and stores it, so D has the same bits in whatever order workgroups and waves run, and nothing waits for a flag.

Ranges are cut between chunks of `LEAST_STEPS` steps, the fewest that an item of a chain has; the last chunk of a tile has what is left.
Each step along the sequence of parts goes on by a workgroup, or by a tile, or by both. So a part of workgroup w and streamed tile t is
number w + t of all parts, and those of a tile stand side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import asmgen as ag
from asmgen.kernels.products.persistent import LEAST_STEPS, STREAM_CHAIN_RULES, resident_workgroups, tile_of, tiles_of

STREAM_K = ag.Parameter("stream_k", "build", bool, "persistent, and the steps of tiles that are no whole round are shared evenly by all "
                        "workgroups; a second kernel adds the parts of a tile in the order of K", default=False)
SHARED_PARTS = ag.ContractArgument("parts", "pointer", "sums of parts of tiles in float32, 16-byte aligned")
LEAST_SHARE = 3
"""Chunks that a workgroup has of shared tiles at least, so 9 steps. A part costs 1.5 steps for its store, 2.3 for its load and 1.2 for a
new beginning (docs/facts/measured_gfx950.md section 5): shorter ones take longer for these than for their products."""
_F32 = 4  # bytes
_MOST_CHUNKS = 1 << 30


@dataclass(frozen=True)
class Shares:
    """`alone` tiles are made whole by one workgroup each; the chunks of the `streamed` ones after them, `chunks` a tile of `steps` steps,
    are shared by `share`."""

    workgroups: int
    alone: int
    streamed: int
    steps: int
    chunks: int
    share: int

    @classmethod
    def of(cls, p: ag.Values) -> Shares:
        """Those of a launch."""
        tile, workgroups = tile_of(p), int(p["workgroups"])
        tiles, steps = tiles_of(p, tile), int(p["k"]) // tile[2]
        chunks, streamed = steps // LEAST_STEPS, tiles % workgroups
        return cls(workgroups, tiles - streamed, streamed, steps, chunks, max(LEAST_SHARE, -(-streamed * chunks // workgroups)))

    @property
    def ranges(self) -> int:
        """The workgroups that have a share."""
        return -(-self.streamed * self.chunks // self.share)

    @property
    def grid(self) -> int:
        """The workgroups that have anything to do."""
        return self.workgroups if self.alone else self.ranges

    @property
    def slots(self) -> int:
        """The parts of all streamed tiles, those that are a whole tile among them."""
        return max(1, self.ranges + self.streamed - 1)

    def steps_before(self, chunk: int) -> int:
        """The steps of streamed tiles before a chunk."""
        tile, own = divmod(chunk, self.chunks)
        return tile * self.steps + own * LEAST_STEPS

    def steps_of(self, workgroup: int) -> int:
        """Those that a workgroup makes, with its tiles of its own."""
        first, last = (min(number * self.share, self.streamed * self.chunks) for number in (workgroup, workgroup + 1))
        return self.steps_before(last) - self.steps_before(first) + self.steps * -(-max(0, self.alone - workgroup) // self.workgroups)

    def parts_of(self, tile: int) -> list[int]:
        """The steps of each part of a streamed tile, in the order of K."""
        first, last = tile * self.chunks, (tile + 1) * self.chunks
        cuts = [first, *(cut for cut in range(-(-(first + 1) // self.share) * self.share, last, self.share)), last]
        at = [self.steps_before(cut) for cut in cuts]
        return [end - begin for begin, end in pairwise(at)]


def is_short(p: ag.Values) -> bool:
    """Whether the numbers of all chunks are 30 bits."""
    tile = tile_of(p)
    return bool(int(p["workgroups"]) * (p["k"] // tile[2] // LEAST_STEPS + LEAST_SHARE) < _MOST_CHUNKS)


STREAM_RULES = (
    *STREAM_CHAIN_RULES,
    ag.Rule("invariant=true needs stream_k=false: where tiles are cut depends on m and n", ("invariant", "stream_k"),
            lambda p: not (p["invariant"] and p["stream_k"])),
    ag.Rule(f"stream_k=true needs fewer than {_MOST_CHUNKS} chunks of {LEAST_STEPS} steps in as many tiles as workgroups",
            ("stream_k", "workgroups", "k", "tile"), lambda p: not p["stream_k"] or is_short(p)),
)


def stream_grid(p: ag.Values) -> tuple[int, int, int]:
    """Of the product's own kernel."""
    return Shares.of(p).grid, 1, 1


def waves_of_tile(variant: ag.Variant) -> int:
    """The waves of the second kernel that make a tile: one for each wave and corner."""
    return 4 * variant.wave_count


def stream_sum_grid(p: ag.Values, variant: ag.Variant) -> tuple[int, int, int]:
    """Of the second kernel: at least one, which ends where no tile is shared."""
    return max(1, Shares.of(p).streamed) * waves_of_tile(variant), 1, 1


STREAM_SUM_GRID = ag.GridRule("4 * waves * max(1, tiles mod workgroups), 1, 1: one for each wave and quarter of each shared tile",
                              stream_sum_grid)


def stream_workspaces(variant: ag.Variant) -> tuple[ag.Workspace, ...]:
    """A slot for each part: the sums of a tile."""
    area = variant.tile[0] * variant.tile[1]
    size = ag.Formula(f"{_F32 * area} * max(1, ranges + tiles mod workgroups - 1): a tile's sums for each part of a shared tile",
                      lambda p: _F32 * area * Shares.of(p).slots)
    return (ag.Workspace("parts", SHARED_PARTS.doc, size, zeroed=False),)


def stream_options(p: ag.Values, variant: ag.Variant) -> list[dict[str, Any]]:
    """What tune tries where tiles that are no whole round leave compute units idle: at least an eighth of them, in at most 8 rounds."""
    tiles, together = tiles_of(p, variant.tile), resident_workgroups(variant)
    asked = {**p, "stream_k": True, "workgroups": together}
    serves = "stream_k" in p and dict(variant.further).get("stream_k", True) \
        and all(rule.holds(asked) for rule in STREAM_RULES)
    worth = tiles < 8 * together and 0 < tiles % together <= together * 7 // 8
    return [{"stream_k": True, "preload": True}] if serves and worth and (tiles > together or p["k"] // variant.tile[2] > 2 * LEAST_STEPS) \
        else []
