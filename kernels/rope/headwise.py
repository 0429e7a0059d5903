"""The kernel of the family rope: a workgroup has the angles of its tokens in registers and rotates heads one after the other, while the
next one loads."""

from __future__ import annotations

from collections.abc import Sequence

import asmgen as ag
from asmgen.kernels.rope.angles import Angles
from asmgen.kernels.rope.cacherows import CacheTensor, Slots
from asmgen.kernels.rope.family import ROPE
from asmgen.kernels.rope.headcolumns import parts_of_heads, release, rest_of_heads
from asmgen.kernels.rope.headnorm import HeadNorm
from asmgen.kernels.rope.headtensors import HeadTensor, HeadWalk
from asmgen.kernels.rope.shape import WAVES, shape_of
from asmgen.kernels.rope.tensors import heads_of, is_cache, pairs_of
from asmgen.kernels.rope.tokens import begin_sequence


@ROPE.variant("gfx950", waves=WAVES)
@ROPE.variant("gfx942", waves=WAVES)
def headwise(k: ag.TileBuilder) -> None:
    """x, x2 after it, and v after that."""
    shape = shape_of(k.parameters)
    if k.p.varlen:
        begin_sequence(k, shape)
    angles = Angles(k, shape)
    slots = Slots(k, shape) if k.p.cache else None
    pairs = pairs_of(k.parameters)
    for source, target in pairs:
        walk = HeadWalk(k, shape, heads_of(source))
        x = HeadTensor(walk, source)
        y = CacheTensor(walk, target, slots) if slots is not None and is_cache(k.parameters, target) else HeadTensor(walk, target)
        last = source == pairs[-1][0]
        if source == "v":
            _copy_heads(walk, x, y)
        else:
            _rotate_heads(walk, x, y, angles, last)
        for owner in (x, y, walk):
            owner.release()


def _rotate_heads(walk: HeadWalk, x: HeadTensor, y: HeadTensor | CacheTensor, angles: Angles, last: bool) -> None:
    """The workgroup's heads of a tensor: load, normalise, turn, store. Of the last tensor a head beyond the last one is asked for, which
    does not exist; of others not, as it would arrive in registers that the next tensor takes."""
    k, shape, name, dtype = walk.k, walk.shape, x.name.upper(), walk.k.p.dtype
    end = k.fresh(f"{x.name}_end")
    walk.skip_if_none(end)
    # register plan
    norm = HeadNorm(k, shape, name.removeprefix("X")) if k.p.norm != "none" else None
    raw, rest = parts_of_heads(k, shape, name, dtype), rest_of_heads(k, shape, f"{name}_rest", dtype)
    wide, made = parts_of_heads(k, shape, f"{name}_wide", "f32"), parts_of_heads(k, shape, f"{name}_rotated", "f32")
    changed = norm is not None or y.dtype != dtype  # the columns that are not rotated
    narrow = made if y.dtype == "f32" else parts_of_heads(k, shape, f"{name}_narrow", y.dtype)
    wide_rest = rest_of_heads(k, shape, f"{name}_wide_rest", "f32") if changed else []
    narrow_rest = wide_rest if y.dtype == "f32" or not changed else rest_of_heads(k, shape, f"{name}_narrow_rest", y.dtype)

    x.load(raw, rest)
    k.s_waitcnt(vmcnt=0)  # so that waits in the loop count the stores that come after its loads
    k.label(f"heads_{x.name}")
    _convert(k, [*wide, *wide_rest], [*raw, *(rest if changed else ())])
    if not changed:
        y.store_rest(rest)
    walk.look_ahead()
    x.go_on()
    with walk.if_any(k.fresh("no_head"), not last):
        x.load(raw, rest)
    if norm is not None:
        norm.apply([*wide, *wide_rest])
    angles.rotate(made, wide)
    _scale(k, y, [*made, *wide_rest])
    _convert(k, [*narrow, *narrow_rest], [*made, *wide_rest])
    y.store(narrow)
    y.store_rest(narrow_rest)
    y.go_on()
    walk.go_on(f"heads_{x.name}")
    k.label(end)
    release(k, [*raw, *rest, *wide, *made, *narrow, *wide_rest, *narrow_rest])
    if norm is not None:
        norm.release()


def _copy_heads(walk: HeadWalk, x: HeadTensor, y: HeadTensor | CacheTensor) -> None:
    """The workgroup's heads of a tensor, as they are or in the type of the cache."""
    k, shape, name = walk.k, walk.shape, x.name.upper()
    parts, rest = parts_of_heads(k, shape, name, k.p.dtype), rest_of_heads(k, shape, f"{name}_rest", k.p.dtype)
    made, made_rest, wide = parts, rest, []
    if y.dtype != k.p.dtype:
        wide = [*parts_of_heads(k, shape, f"{name}_wide", "f32"), *rest_of_heads(k, shape, f"{name}_wide_rest", "f32")]
        made, made_rest = parts_of_heads(k, shape, f"{name}_made", y.dtype), rest_of_heads(k, shape, f"{name}_made_rest", y.dtype)
    end = k.fresh(f"{x.name}_end")
    walk.skip_if_none(end)
    x.load(parts, rest)
    k.label(f"heads_{x.name}")
    _convert(k, wide, [*parts, *rest])
    _scale(k, y, wide)
    if wide:
        _convert(k, [*made, *made_rest], wide)
    y.store(made)
    y.store_rest(made_rest)
    y.go_on()
    walk.look_ahead()
    x.go_on()
    x.load(parts, rest)
    walk.go_on(f"heads_{x.name}")
    k.label(end)
    release(k, [*parts, *rest, *wide, *made, *made_rest])


def _scale(k: ag.TileBuilder, y: HeadTensor | CacheTensor, tiles: Sequence[ag.Tile]) -> None:
    """Float32 in units of the cache's scale."""
    if y.inverse is not None:
        for tile in tiles:
            ag.mul(k, tile, tile, y.inverse)


def _convert(k: ag.TileBuilder, targets: Sequence[ag.Tile], sources: Sequence[ag.Tile]) -> None:
    for target, source in zip(targets, sources, strict=False):
        if target is source:
            continue
        if target.dtype == source.dtype:
            ag.move(k, target, source)
        else:
            ag.convert(k, target, source)
