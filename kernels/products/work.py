"""The number of steps of each workgroup of a matrix product, and a product of smaller K whose first workgroup represents all."""

from __future__ import annotations

import math

import numpy as np

import asmgen as ag
from asmgen.kernels.products.contract import DOTS, is_dealt, is_persistent, is_streamed
from asmgen.kernels.products.dots import EDGE, together_of
from asmgen.kernels.products.persistent import persistent_grid, tiles_of
from asmgen.kernels.products.sides import edges, side
from asmgen.kernels.products.split import steps_of_parts
from asmgen.kernels.products.streams import CHUNK, Shares

_LEAST_TRACED, _ROUNDS, _COPIES = 16, 6, 8
"""The fewest steps of the smaller product, the fewest rounds of its loop, and the number of steps that is left out at a time: the most
copies of a step in a loop."""
_LINE = 128  # bytes of a cache line: rows that begin at the same byte of one touch the same number of lines at any stride


def product_work(p: ag.Values, variant: ag.Variant, bits: int) -> ag.LaunchWork:
    """The work of a launch. `bits` is the size of an element of A and B.

    The smaller product has rows of the smaller K. A row stride that is no multiple of a cache line keeps its rest, because rows then begin
    within lines. Where K is split, workgroups without steps are none: they end before others would have begun.
    """
    rows, columns, depth = variant.tile
    parts, line, further = steps_of_parts(p, depth), math.lcm(_LINE * 8, bits) // bits, dict(variant.further)
    least, copies = max(_LEAST_TRACED, _ROUNDS * further.get("stages", 1)), _COPIES
    if is_dealt(variant):  # each wave has its part of the steps, and a loop as long as its loads run ahead
        copies = variant.wave_count * further["stages"]
        least = _ROUNDS * copies
    traced = parts[0] - max(0, parts[0] - least) // copies * copies
    missing = -p["k"] % depth  # columns that the last step lacks
    k = traced * p.get("split_k", 1) * depth - missing if traced < parts[0] else p["k"]
    strides = {name: k + (p[name] - k) % line for name in ("lda", "ldb")} if traced < parts[0] else {}
    down, across = edges(p)
    tiles = -(-down // rows) * -(-across // columns)
    batch = p["batch"]
    if is_streamed(p) and Shares.of(p).is_cut:
        return _streamed_work(p, variant, bits, line)
    if is_persistent(p):
        return _persistent_work(p, variant, bits, line)
    alone = {"batch": 1} if batch > 1 else {}
    flops = 2.0 * rows * columns * depth
    if variant.schedule == DOTS:  # of an instruction's products those of different pieces of K are for nothing
        flops *= EDGE / together_of(rows, columns // variant.wave_count)
    return ag.LaunchWork({**p, "k": k, **strides, **alone}, traced, np.tile(np.repeat(parts, tiles), batch), flops, _read_bytes(p, bits),
                         _needed(p))


def _read_bytes(p: ag.Values, bits: int) -> int:
    """Of all matrices A and B."""
    return int(sum(p[edge] * (p["batch"] if p.get(f"{name}_stride_batch", 1) else 1) for name, edge in (("a", "m"), ("b", "n")))
               * p["k"] * bits // 8)


def _needed(p: ag.Values) -> float:
    """The operations of the launch's problem."""
    return 2.0 * float(p["batch"] * p["m"] * p["n"] * p["k"])


def _persistent_work(p: ag.Values, variant: ag.Variant, bits: int, line: int) -> ag.LaunchWork:
    """Of workgroups that make one tile after another, each in one part of K or several. The smaller product has one workgroup with as many
    tiles as the first one has, side by side, each part with fewer steps."""
    rows, columns, depth = variant.tile
    steps, tiles, parts = p["k"] // depth, tiles_of(p, variant.tile), int(p["split_k"])
    workgroups = persistent_grid(p, variant)[0]
    items, each = -(-tiles // workgroups), -(-steps // parts)
    traced = steps - parts * (max(0, each - _LEAST_TRACED) // _COPIES * _COPIES)
    k = traced * depth + p["k"] % depth
    strides = {name: k + (p[name] - k) % line for name in ("lda", "ldb")} if traced < steps else {}
    down, across = side(p, "m"), side(p, "n")
    n = items * columns if items > 1 else min(p[across], columns)
    small = {down: min(p[down], rows), across: n, "batch": 1, "workgroups": 1, "k": k}
    of_each = [steps * -(-(tiles - number) // workgroups) for number in range(workgroups)]
    far = {"ldd": n + (p["ldd"] - n) % line, "ldc": n + (p["ldc"] - n) % line} if items > 1 else {}
    return ag.LaunchWork({**p, **small, **strides, **far}, traced * items, np.array(of_each), 2.0 * rows * columns * depth,
                         _read_bytes(p, bits), _needed(p), items=tiles / workgroups, pieces=items * parts)


def _streamed_work(p: ag.Values, variant: ag.Variant, bits: int, line: int) -> ag.LaunchWork:
    """Of workgroups that share tiles. The smaller product has one shared tile, of as many parts as those of the launch have on average, and
    as many tiles of its own for the first workgroup, which are matrices of a batch. That workgroup has one part, where some have two: what
    storing the second one takes is left out."""
    rows, columns, depth = variant.tile
    shares = Shares.of(p)
    parts = max(2, round(np.mean([len(shares.parts_of(tile)) for tile in range(shares.streamed)])))
    share = min(-(-shares.chunks // parts), _LEAST_TRACED // CHUNK)
    steps = min(shares.steps, CHUNK * parts * share)
    alone = -(-shares.alone // shares.workgroups)
    down, across = (min(p[side(p, name)], edge) for name, edge in (("m", rows), ("n", columns)))
    k = steps * depth + p["k"] % depth
    first = {**p, side(p, "m"): down, side(p, "n"): across, "batch": alone * parts + 1, "workgroups": parts, "share": share, "k": k}
    for name, width in (("lda", k), ("ldb", k), ("ldd", across), ("ldc", across)):
        first[name] = width + (p[name] - width) % line
    first |= {side(p, "a_stride_batch"): 0, side(p, "b_stride_batch"): across * first[side(p, "ldb")],
              **{f"{name}_stride_batch": down * first[f"ld{name}"] for name in "cd"}}
    of_each = [shares.steps_of(number) for number in range(shares.grid)]
    return ag.LaunchWork(first, Shares.of(first).steps_of(0), np.array(of_each), 2.0 * rows * columns * depth, _read_bytes(p, bits),
                         _needed(p), items=tiles_of(p, variant.tile) / shares.grid)
