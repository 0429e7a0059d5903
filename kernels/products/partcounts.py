"""Which numbers of parts of K a product's variant is tried with, beside its persistent forms."""

from __future__ import annotations

from typing import Any

import asmgen as ag
from asmgen.kernels.products.contract import shows_whole_tile
from asmgen.kernels.products.invariance import invariant_parts
from asmgen.kernels.products.persistent import persistent_options
from asmgen.kernels.products.sides import edges
from asmgen.kernels.products.split import MOST_PARTS
from asmgen.kernels.products.streams import stream_options


def split_options(p: ag.Values, variant: ag.Variant, units: int, bits: int | None = None) -> list[dict[str, Any]]:
    """As many parts as fill the compute units once and twice, or leave none idle in the last round; and, of elements of so many `bits`, as
    many as their invariant products have, so that those are never faster. Kernels so short gain by arguments that the hardware loads; so do
    those without parts whose tiles are one round, as no other workgroup hides how they begin."""
    alone = [*persistent_options(p, variant), *stream_options(p, variant)]
    if p.get("invariant"):
        return alone  # `settled_parts`
    rows, columns, depth = variant.tile
    tiles, steps = p["batch"] * -(-edges(p)[0] // rows) * -(-edges(p)[1] // columns), -(-p["k"] // depth)
    asked = {min(rounds * units // tiles, steps, MOST_PARTS) for rounds in (1, 2)} | _evening(tiles, units, steps)
    if bits is not None:
        asked.add(min(invariant_parts(p["n"], p["k"], bits), steps))
    each = {-(-steps // split) for split in asked if split > 1}  # as few parts as have no more steps each
    alone += [{"preload": True}] if shows_whole_tile(variant.schedule) or tiles <= units else []
    if "split_k" in dict(variant.further):
        return alone  # its waves have all of K
    return alone + [{"split_k": split, "preload": True} for split in sorted(-(-steps // count) for count in each)]


def _evening(tiles: int, units: int, steps: int) -> set[int]:
    """The fewest parts with which some rounds over the compute units leave fewer than a 32nd of them idle, where those of whole tiles leave
    an 8th and more: at most so many that no part is shorter than 8 steps, and none for more than 8 rounds."""
    def idle(count: int) -> float:
        return 1 - count / (-(-count // units) * units)

    if not units < tiles <= 8 * units or idle(tiles) < 1 / 8:
        return set()
    return {next((split for split in range(2, min(8, steps // 8) + 1) if idle(split * tiles) < 1 / 32), 1)}
