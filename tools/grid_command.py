"""`asmgen grid`: which tile each workgroup of a matrix product makes, on which XCD, and what the caches then find. Predictions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asmgen.author.contract.contract import Formula, KernelContract, Parameter
from asmgen.isa.arch import ARCHITECTURES
from asmgen.isa.errors import AsmgenError
from asmgen.isa.layouts_mfma import element_bits
from asmgen.isa.timing import GPUS, Timing
from asmgen.model.gridcache import CacheRates, FoundOrder, TileLoads, ordered, rates_of, search
from asmgen.model.gridorder import GridOrder
from asmgen.tools.profile_command import choose_timing

_EDGE = (1 << 31) - 1
_DTYPES = ("f32", "bf16", "f16", "fp8", "bf8", "i8", "fp6", "bf6", "fp4")
_REQUEST = KernelContract(
    "grid", "the grid of a matrix product", tuple(ARCHITECTURES),
    (*(Parameter(name, "run", int, doc, minimum=1, maximum=_EDGE)
       for name, doc in (("m", "rows of D"), ("n", "columns of D"), ("k", "depth"))),
     Parameter("tile", "run", str, "MxNxK: a workgroup's tile of D, and a step along K"),
     Parameter("window", "run", int, "rows of tiles in a window; 0: row-major", default=0, minimum=0, maximum=_EDGE),
     Parameter("chunk", "run", int, "neighbours on one XCD; 0: as the hardware deals them", default=0, minimum=0, maximum=_EDGE),
     Parameter("rotated", "run", bool, "an unbroken eighth of the tiles on each XCD, in place of chunks", default=False),
     Parameter("dtype", "run", str, "of A and B", default="bf16", choices=_DTYPES)),
    (), (64, 1, 1), Formula("a workgroup for each tile", lambda _: (1, 1, 1)))
_WIDEST_MAP = 120  # columns of tiles that the text draws
_BEST = 5
_CELL, _TOP, _MARGIN = 12, 44, 12  # of the picture, in pixels


@dataclass(frozen=True)
class GridReport:
    """One order of a grid, or the best that a search found, with the others."""

    order: GridOrder
    tiles: Sequence[tuple[int, int]]
    rates: CacheRates
    timing: Timing
    tile: tuple[int, int, int]
    tried: tuple[FoundOrder, ...] = ()

    @property
    def together(self) -> int:
        """Workgroups of a round: one on each compute unit."""
        return self.timing.clocks("compute_units")

    def xcd(self, number: int) -> int:
        """Where a workgroup runs: the GPU deals them to its XCDs in turn."""
        return number % self.timing.clocks("xcds")

    def as_json(self) -> dict[str, Any]:
        """The document: `order` and `xcd` are by workgroup number."""
        order, rates = self.order, self.rates
        return {"gpu": self.timing.gpu, "arch": self.timing.arch, "predicted": True, "rows": order.rows, "columns": order.columns,
                "tile": "x".join(map(str, self.tile)), "window": order.window, "chunk": order.chunk, "rotated": order.rotated,
                "l2_hit": rates.l2_hit, "llc_hit": rates.llc_hit, "l2_bytes": rates.l2_bytes, "llc_bytes": rates.llc_bytes,
                "hbm_bytes": rates.hbm_bytes, "weighted_tb_s": rates.weighted(self.timing), "workgroups_together": self.together,
                "order": [list(place) for place in self.tiles], "xcd": [self.xcd(number) for number in range(len(self.tiles))],
                "tried": [{"window": one.window, "chunk": one.chunk, "l2_hit": one.rates.l2_hit, "llc_hit": one.rates.llc_hit,
                           "weighted_tb_s": one.weighted} for one in self.tried]}

    def heading(self) -> str:
        """One line."""
        order = self.order
        how = f"windows of {order.window} rows" if order.window else "row-major"
        how += f", chunks of {order.chunk}" if order.chunk else ", rotated by XCD" if order.rotated else ""
        return (f"{order.rows} x {order.columns} tiles of {'x'.join(map(str, self.tile))} on {self.timing.gpu}, {how}: predicted L2 hits "
                f"{self.rates.l2_hit:.1%}, LLC hits {self.rates.llc_hit:.1%}")

    def text(self) -> str:
        """For people: the figures, and the XCD of each tile of the first round."""
        rates, lines = self.rates, [self.heading()]
        lines.append(f"  loads predicted: {rates.l2_bytes / 1e9:.2f} GB of L2, {rates.llc_bytes / 1e9:.2f} GB of them of LLC, "
                     f"{rates.hbm_bytes / 1e9:.2f} GB of HBM; the paper's equation 1 gives {rates.weighted(self.timing):.1f} TB/s")
        if self.tried:
            lines.append(f"  the best of {len(self.tried)} orders, by that equation:")
            lines += [f"    window={one.window} chunk={one.chunk}: L2 {one.rates.l2_hit:.1%}, LLC {one.rates.llc_hit:.1%}, "
                      f"{one.weighted:.1f} TB/s" for one in self.tried[:_BEST]]
        if self.order.columns <= _WIDEST_MAP:
            first = {place: self.xcd(number) for number, place in enumerate(self.tiles[:self.together])}
            lines.append(f"  XCD of the first {min(self.together, len(self.tiles))} workgroups, by tile:")
            lines += ["    " + "".join(str(first.get((row, column), ".")) for column in range(self.order.columns))
                      for row in range(self.order.rows)]
        return "\n".join(lines) + "\n"

    def svg(self) -> str:
        """The picture: a square for each tile, coloured by XCD, those of the first round in full colour."""
        width = max(2 * _MARGIN + self.order.columns * _CELL, 8 * len(self.heading()) + 2 * _MARGIN)
        height = _TOP + self.order.rows * _CELL + _MARGIN
        parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
                 'font-family="monospace" font-size="12">', '<rect width="100%" height="100%" fill="white"/>',
                 f'<text x="{_MARGIN}" y="16">{self.heading()}</text>']
        xcds = self.timing.clocks("xcds")
        for xcd in range(xcds):
            x = _MARGIN + 64 * xcd
            parts.append(f'<rect x="{x}" y="26" width="10" height="10" fill="{_colour(xcd, xcds, True)}"/>'
                         f'<text x="{x + 13}" y="36">XCD {xcd}</text>')
        for number, (row, column) in enumerate(self.tiles):
            colour = _colour(self.xcd(number), xcds, number < self.together)
            parts.append(f'<rect x="{_MARGIN + column * _CELL}" y="{_TOP + row * _CELL}" width="{_CELL - 1}" height="{_CELL - 1}" '
                         f'fill="{colour}"><title>workgroup {number}, XCD {self.xcd(number)}: row {row}, column {column}</title></rect>')
        return "\n".join([*parts, "</svg>"]) + "\n"


def _colour(xcd: int, xcds: int, first: bool) -> str:
    return f"hsl({xcd * 360 // xcds}, {75 if first else 45}%, {45 if first else 88}%)"


def grid_report(arch: str | None, gpu: str | None, parameters: Sequence[str], searching: bool,
                overrides: Path | None = None) -> GridReport:
    """The order that the parameters describe, or the best one of a search. Raises AsmgenError for a request that means nothing."""
    chosen = arch or GPUS.get(gpu or "", "gfx950")
    if chosen not in ARCHITECTURES:
        raise AsmgenError(f"unknown architecture {chosen!r}; known are {', '.join(ARCHITECTURES)}")
    timing = choose_timing(chosen, gpu, overrides)
    values = _REQUEST.resolve_run(_REQUEST.parse(parameters))
    numbers = {name: value for name, value in values.items() if isinstance(value, int)}
    match = re.fullmatch(r"(\d+)x(\d+)x(\d+)", str(values["tile"]))
    if match is None or not all(int(part) for part in match.groups()):
        raise AsmgenError(f"tile is MxNxK, such as 192x256x64, not {values['tile']!r}")
    tile = int(match[1]), int(match[2]), int(match[3])
    rows, columns = -(-numbers["m"] // tile[0]), -(-numbers["n"] // tile[1])
    row_bytes = -(-numbers["k"] * element_bits(str(values["dtype"])) // 8)
    loads = TileLoads(tile[0] * row_bytes, tile[1] * row_bytes, -(-numbers["k"] // tile[2]))
    tried: tuple[FoundOrder, ...] = ()
    window, chunk, rotated = numbers["window"] or None, numbers["chunk"] or None, bool(values["rotated"])
    if searching:
        if window or chunk or rotated:
            raise AsmgenError("--search finds window and chunk; leave them out")
        tried = tuple(search(rows, columns, loads, timing))
        window, chunk = tried[0].window, tried[0].chunk
    order = GridOrder(rows, columns, window, chunk, rotated)
    tiles = ordered(order)
    return GridReport(order, tiles, rates_of(tiles, loads, timing, 1), timing, tile, tried)
