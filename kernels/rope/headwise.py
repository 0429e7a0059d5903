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
    narrow = made if dtype == "f32" else parts_of_heads(k, shape, f"{name}_narrow", dtype)
    wide_rest = rest_of_heads(k, shape, f"{name}_wide_rest", "f32") if norm is not None else []
    narrow_rest = wide_rest if dtype == "f32" or norm is None else rest_of_heads(k, shape, f"{name}_narrow_rest", dtype)

    x.load(raw, rest)
    k.s_waitcnt(vmcnt=0)  # so that waits in the loop count the stores that come after its loads
    k.label(f"heads_{x.name}")
    _convert(k, [*wide, *wide_rest], [*raw, *(rest if norm is not None else ())])
    if norm is None:
        y.store_rest(rest)
    walk.look_ahead()
    x.go_on()
    with walk.if_any(k.fresh("no_head"), not last):
        x.load(raw, rest)
    if norm is not None:
        norm.apply([*wide, *wide_rest])
    angles.rotate(made, wide)
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
    """The workgroup's heads of a tensor, as they are."""
    k, shape = walk.k, walk.shape
    parts, rest = parts_of_heads(k, shape, x.name.upper(), k.p.dtype), rest_of_heads(k, shape, f"{x.name.upper()}_rest", k.p.dtype)
    end = k.fresh(f"{x.name}_end")
    walk.skip_if_none(end)
    x.load(parts, rest)
    k.label(f"heads_{x.name}")
    y.store(parts)
    y.store_rest(rest)
    y.go_on()
    walk.look_ahead()
    x.go_on()
    x.load(parts, rest)
    walk.go_on(f"heads_{x.name}")
    k.label(end)
    release(k, [*parts, *rest])


def _convert(k: ag.TileBuilder, targets: Sequence[ag.Tile], sources: Sequence[ag.Tile]) -> None:
    for target, source in zip(targets, sources, strict=False):
        if target is source:
            continue
        if target.dtype == source.dtype:
            ag.move(k, target, source)
        else:
            ag.convert(k, target, source)
