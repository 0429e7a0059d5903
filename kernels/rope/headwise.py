"""The kernel of the family rope: a workgroup has the angles of its tokens in registers and rotates heads one after the other, while the
next one loads."""

from __future__ import annotations

from collections.abc import Sequence

import asmgen as ag
from asmgen.kernels.rope.angles import Angles
from asmgen.kernels.rope.family import ROPE
from asmgen.kernels.rope.headtensors import HeadTensor, HeadWalk
from asmgen.kernels.rope.shape import WAVES, HeadShape, shape_of


@ROPE.variant("gfx950", waves=WAVES)
@ROPE.variant("gfx942", waves=WAVES)
def headwise(k: ag.TileBuilder) -> None:
    """x, and x2 after it."""
    shape = shape_of(k.parameters)
    angles = Angles(k, shape)
    for number in (("", "2") if k.p.second else ("",)):
        _rotate_heads(k, shape, angles, number)


def _rotate_heads(k: ag.TileBuilder, shape: HeadShape, angles: Angles, number: str) -> None:
    """The workgroup's heads of a tensor: load, turn, store."""
    # register plan
    walk = HeadWalk(k, shape, number)
    x, y = HeadTensor(walk, f"x{number}"), HeadTensor(walk, f"y{number}")
    raw, rest = _parts(k, shape, f"X{number}", k.p.dtype), _rest(k, shape, f"REST{number}")
    wide = _parts(k, shape, f"W{number}", "f32")
    made = _parts(k, shape, f"T{number}", "f32")
    narrow = made if k.p.dtype == "f32" else _parts(k, shape, f"Y{number}", k.p.dtype)

    end = k.fresh(f"heads{number}_end")
    walk.skip_if_none(end)
    x.load(raw, rest)
    k.label(f"heads{number}")
    for target, source in zip(wide, raw, strict=True):
        (ag.move if k.p.dtype == "f32" else ag.convert)(k, target, source)
    if rest is not None:
        y.store_rest(rest)
    walk.look_ahead()
    x.go_on()
    x.load(raw, rest)
    angles.rotate(made, wide)
    for target, source in zip(narrow, made, strict=True):
        if target is not source:
            ag.convert(k, target, source)
    y.store(narrow)
    y.go_on()
    walk.go_on(f"heads{number}")
    k.label(end)
    if k.p.second and not number:
        k.s_waitcnt(vmcnt=0)  # what was loaded beyond the last head would arrive in registers that the other tensor takes
    for tile in (*raw, *wide, *made, *(narrow if narrow is not made else ()), *((rest,) if rest is not None else ())):
        k.registers.release(tile.name)


def _parts(k: ag.TileBuilder, shape: HeadShape, name: str, dtype: str) -> Sequence[ag.Tile]:
    """The rotated columns of a wave's tokens: the two halves of neox, or all of gptj."""
    lanes = k.lanes(dtype, shape.run, shape.across)
    return [k.tile(f"{name}_{part}", shape.wave_tokens, shape.part, lanes) for part in range(shape.parts)]


def _rest(k: ag.TileBuilder, shape: HeadShape, name: str) -> ag.Tile | None:
    """The columns that are copied."""
    if not shape.rest:
        return None
    tile: ag.Tile = k.tile(name, shape.wave_tokens, shape.rest, k.lanes(k.p.dtype, shape.rest_run, shape.across))
    return tile
