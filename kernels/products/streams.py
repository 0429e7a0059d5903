"""Stream-K in numbers: which steps of which tiles each workgroup makes (`streamed` has the code).

G workgroups make T tiles of D. As many tiles as are whole rounds of G are made whole, as by `persistent`; the steps of the T mod G others
are shared: each workgroup has a range of them, in the order of tiles and of K, that begins and ends inside tiles. What a range has of a
tile is a whole tile, or a part, whose sums go in float32 to a slot of a workspace. A second kernel adds the parts of a tile in the order of
K and stores it, so D has the same bits in whatever order workgroups and waves run, and nothing waits for a flag.

Ranges are cut between chunks of `CHUNK` steps; the last chunk of a tile has what is left. From one part to the next the workgroup is the
next one, or the tile is, or both. So a part of workgroup w and streamed tile t is number w + t of all parts, and those of a tile stand side
by side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import asmgen as ag
from asmgen.kernels.products.persistent import LEAST_STEPS, STREAM_CHAIN_RULES, resident_workgroups, tile_of, tiles_of

STREAM_K = ag.Parameter("stream_k", "build", bool, "persistent, and the steps of tiles that are no whole round are shared by all "
                        "workgroups; a second kernel adds the parts of a tile in the order of K", default=False)
SHARED_PARTS = ag.ContractArgument("parts", "pointer", "sums of parts of tiles in float32, 16-byte aligned")
SHARE_ARGUMENT = ag.ContractArgument("share", "u32", "chunks of 4 steps that a workgroup has of shared tiles")
CHUNK = 4
"""Steps of a chunk: the least power of two that an item of a chain may have (`LEAST_STEPS`)."""
_SPLIT = 20
"""Steps that a launch takes longer if each workgroup has a part to store that is loaded again (docs/facts/measured_gfx950.md section 5)."""
FRAGMENT_ROWS = 16
"""Rows of a matrix instruction's result."""
_F32 = 4  # bytes
_MOST_CHUNKS = 1 << 30
_MOST_PARTS = 512  # of a tile: more than half of the compute units of any GPU here would make one
assert CHUNK >= LEAST_STEPS


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
    def of(cls, p: ag.Values, share: int | None = None) -> Shares:
        """Those of a launch, or with another share."""
        tile, workgroups = tile_of(p), int(p["workgroups"])
        tiles, steps = tiles_of(p, tile), int(p["k"]) // tile[2]
        streamed = tiles % workgroups
        return cls(workgroups, tiles - streamed, streamed, steps, steps // CHUNK, p["share"] if share is None else share)

    @property
    def even(self) -> int:
        """The least share."""
        return max(1, -(-self.streamed * self.chunks // self.workgroups))

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

    @property
    def is_cut(self) -> bool:
        """Whether workgroups have parts of tiles."""
        return bool(self.streamed and self.share % self.chunks)

    @property
    def cost(self) -> float:
        """What a share takes, in steps: its own, and what parts take that are stored and loaded again."""
        whole = (self.streamed * self.chunks - 1) // math.lcm(self.share, self.chunks)  # shares that begin where a tile does
        parts = self.slots - whole if self.is_cut else 0
        return min(self.share, self.chunks) * CHUNK + _SPLIT * parts / self.workgroups

    def steps_before(self, chunk: int) -> int:
        """The steps of streamed tiles before a chunk."""
        tile, own = divmod(chunk, self.chunks)
        return tile * self.steps + own * CHUNK

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


def default_share(p: ag.Values) -> int:
    """The share that takes the least time: the even one, or a tile's part of so many."""
    shares = Shares.of(p, 1)
    if not p["stream_k"] or not shares.streamed or not shares.chunks:
        return 1
    return _cheapest(replace(shares, alone=0, steps=0))


@lru_cache(maxsize=1024)
def _cheapest(shares: Shares) -> int:
    """The share of least cost: a function of the workgroups, shared tiles and chunks alone, whatever whole tiles there are beside them.
    A share costs its own steps at least, so those that alone take as long as the best are not tried."""
    even, chunks = shares.even, shares.chunks
    most = min(chunks, _MOST_PARTS, (chunks - 1) // (even - 1) if even > 1 else chunks)  # of more parts each is less than even
    best, least = even, math.inf
    for share in sorted({even, *(-(-chunks // parts) for parts in range(1, most + 1))}):
        if min(share, chunks) * CHUNK >= least:
            break
        cost = replace(shares, share=share).cost
        best, least = (share, cost) if cost < least else (best, least)
    return best


SHARE = ag.Parameter("share", "run", int, f"of stream_k=true: chunks of {CHUNK} steps that a workgroup has of shared tiles", minimum=1,
                     maximum=_MOST_CHUNKS, default_from=ag.Formula("what takes the least time by the cost of a part", default_share))


def is_short(p: ag.Values) -> bool:
    """Whether the numbers of all chunks are 30 bits."""
    return bool(int(p["workgroups"]) * (p["k"] // tile_of(p)[2] // CHUNK + p["share"]) < _MOST_CHUNKS)


def _serves(p: ag.Values) -> bool:
    """Whether the shares of all workgroups are all shared tiles."""
    return Shares.of(p).even <= int(p["share"])


STREAM_RULES = (
    *STREAM_CHAIN_RULES,
    ag.Rule("invariant=true needs stream_k=false: where tiles are cut depends on m and n", ("invariant", "stream_k"),
            lambda p: not (p["invariant"] and p["stream_k"])),
    ag.Rule(f"stream_k=true needs a k of at least {CHUNK} steps", ("stream_k", "k", "tile"),
            lambda p: not p["stream_k"] or p["k"] >= CHUNK * tile_of(p)[2]),
    ag.Rule("share must be at least the chunks of all shared tiles, divided by workgroups",
            ("share", "stream_k", "m", "n", "k", "batch", "workgroups", "tile"), lambda p: not p["stream_k"] or _serves(p)),
    ag.Rule(f"stream_k=true needs fewer than {_MOST_CHUNKS} chunks of {CHUNK} steps in as many tiles and shares as workgroups",
            ("stream_k", "workgroups", "k", "tile", "share"), lambda p: not p["stream_k"] or is_short(p)),
)


def stream_grid(p: ag.Values) -> tuple[int, int, int]:
    """Of the product's own kernel."""
    return Shares.of(p).grid, 1, 1


def waves_of_tile(variant: ag.Variant) -> int:
    """The waves of the second kernel that make as many rows of each part of a tile as a matrix instruction has."""
    return 4 * variant.wave_count


def rows_of_wave(variant: ag.Variant) -> int:
    """The rows of a corner that a wave of the product's own kernel has."""
    return int(variant.tile[0] // 2 // variant.waves[0])


def stream_sum_grid(p: ag.Values, variant: ag.Variant) -> tuple[int, int, int]:
    """Of the second kernel: at least one tile, which ends where none is shared."""
    return max(1, Shares.of(p).streamed) * waves_of_tile(variant), rows_of_wave(variant) // FRAGMENT_ROWS, 1


STREAM_SUM_GRID = ag.GridRule("4 * waves * max(1, tiles mod workgroups), rows of a wave's corner / 16, 1: a workgroup for 16 rows of what "
                              "each wave has of each corner of each shared tile", stream_sum_grid)


def stream_workspaces(variant: ag.Variant) -> tuple[ag.Workspace, ...]:
    """A slot for each part: the sums of a tile."""
    area = variant.tile[0] * variant.tile[1]
    size = ag.Formula(f"{_F32 * area} * max(1, ranges + tiles mod workgroups - 1): a tile's sums for each part of a shared tile",
                      lambda p: _F32 * area * Shares.of(p).slots)
    return (ag.Workspace("parts", SHARED_PARTS.doc, size, zeroed=False),)


def stream_options(p: ag.Values, variant: ag.Variant) -> list[dict[str, Any]]:
    """What tune tries where tiles that are no whole round leave compute units idle: at least an eighth of them, in at most 8 rounds."""
    if "stream_k" not in p or not dict(variant.further).get("stream_k", True):
        return []
    tiles, together = tiles_of(p, variant.tile), resident_workgroups(variant)
    asked = {**p, "stream_k": True, "workgroups": together}
    asked["share"] = default_share(asked)
    if not all(rule.holds(asked) for rule in STREAM_RULES):
        return []
    shares = Shares.of(asked)
    worth = tiles < 8 * together and 0 < shares.streamed <= together * 7 // 8 and shares.share < shares.chunks
    return [{"stream_k": True, "preload": True}] if worth else []
