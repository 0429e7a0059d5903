"""Products split along K: `split_k` workgroups share the steps of each tile, and a second kernel adds what they made.

Each workgroup writes its sums, in float32, into a workspace of its own; the second kernel adds those of an element in the order of K. So D
has the same bits in whatever order workgroups and waves run, without atomics. Nothing is read that was not written: where K has fewer
steps than `split_k`, or would be used up sooner, the last workgroups have none and end, and the second kernel reads the others' sums alone.

The workspace has a panel for each part and each column of tiles: m rows of as many columns as a tile, without a gap. So sums are stored in
whole tiles however the columns of D are cut, an access of a wave in the second kernel is 1 KiB of neighbours, and how large the workspace
is has no limit: where a panel begins is computed in 64 bits, and a tile's rows in it span less than 1 MiB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import asmgen as ag
from asmgen.kernels.products.anyk import columns_kept, takes_any_k
from asmgen.kernels.products.batch import batch_arguments, to_matrices
from asmgen.kernels.products.contract import (
    DEALT,
    DEALT_WAVES,
    DOTS,
    ELEMENTS,
    PRODUCT_ARGUMENTS,
    is_persistent,
    is_streamed,
)
from asmgen.kernels.products.epilogue import ProductEpilogue, product_epilogue
from asmgen.kernels.products.factors import Factors
from asmgen.kernels.products.layouts import by_columns
from asmgen.kernels.products.persistent import LEAST_STEPS, PERSISTENT_ARGUMENTS, persistent_grid
from asmgen.kernels.products.sides import argument, edges, side
from asmgen.kernels.products.slots import slots_of_workgroups
from asmgen.kernels.products.streams import SHARE_ARGUMENT, SHARED_PARTS, stream_grid, stream_workspaces

MOST_PARTS = 60
"""256 VGPRs hold 4 sums of each part and 16 more, and 63 loads may be in flight (docs/facts/instructions.md sections 4 and 5)."""
_F32 = 4  # bytes
PER_LANE = 4
"""Sums that a lane of the second kernel loads at once: 16 bytes."""
_MOST_TIMED = 32  # parts of a build that is timed for others
_ASKED, _MOST_SUM_WAVES = 16, 4  # KiB and waves of a workgroup of the second kernel: as many as are predicted to take the least time
KEEP_SUBNORMAL = ag.HwReg(1, 4, 2)
"""Bits of MODE that say whether additions keep subnormal float32: matrix cores do, so the sum of a split product does too."""

SPLIT_K = ag.Parameter("split_k", "build", int, "workgroups that share the steps of a tile; a second kernel adds their sums in order",
                       default=1, minimum=1, maximum=MOST_PARTS, tried=(3,))


def reduce_parameter(variant: ag.Variant) -> ag.Parameter:
    """How the sums of parts are added; a variant without parts has nothing to add in another way."""
    alone = dict(variant.further).get("split_k") == 1
    return ag.Parameter("reduce", "build", str, "how sums of parts are added: ordered: in the order of K, the same bits each time; atomic: "
                        "by memory, in any order, in a workspace of one part's size (not where a variant has split_k=1 alone)",
                        default="ordered", choices=("ordered",) if alone else ("ordered", "atomic"))


INVARIANT = ag.Parameter("invariant", "build", bool, "an element of D depends on its row of A, its column of B, k and split_k alone: "
                         "the same bits for any m, batch, tile, schedule and layout. n and k say how often tune and gemm.matmul cut K",
                         default=False)
REDUCE_RULES = (
    ag.Rule("invariant=true needs a schedule whose waves do not share K, nor their lanes", ("invariant", "schedule"),
            lambda p: not p["invariant"] or p["schedule"] not in (DEALT, DOTS)),
    ag.Rule("invariant=true needs reduce=ordered where K is split", ("invariant", "split_k", "reduce"),
            lambda p: not p["invariant"] or p["split_k"] == 1 or p["reduce"] == "ordered"),
)

_BY_NAME = {argument.name: argument for argument in PRODUCT_ARGUMENTS}
_PARTS = ag.ContractArgument("parts", "pointer", "sums of each part in float32, 16-byte aligned")
_PART_ARGUMENTS = (_BY_NAME["a"], _BY_NAME["b"], _PARTS, *(_BY_NAME[name] for name in ("m", "n", "k", "lda", "ldb")))


def sum_arguments(variant: ag.Variant, build: ag.Values) -> tuple[ag.ContractArgument, ...]:
    """Those of the second kernel."""
    names = ("d", "m", "n", "k", "ldd", "alpha", "beta", "ldc", "c", "bias")
    return (_PARTS, *(_BY_NAME[name] for name in names), *batch_arguments(build, "dc"))


def has_parts(build: ag.Values) -> bool:
    """Whether K is cut into parts, whose sums are added."""
    return bool(build.get("split_k", 1) > 1)


def is_split(build: ag.Values) -> bool:
    """Whether several workgroups share a tile, each with a part of K."""
    return has_parts(build) and not is_persistent(build)


def adds_own_parts(build: ag.Values) -> bool:
    """Whether a workgroup makes the parts of a tile one after the other (`ownparts`)."""
    return has_parts(build) and is_persistent(build)


def is_atomic(build: ag.Values) -> bool:
    """Whether memory adds the sums of parts."""
    return is_split(build) and build.get("reduce") == "atomic"


def held_parts(build: ag.Values) -> int:
    """How many panels of sums each matrix has in the workspace."""
    return 1 if is_atomic(build) else int(build["split_k"])


def stored_type(k: ag.TileBuilder) -> str:
    """The type that the product's own kernel stores: sums of a part are float32."""
    return "f32" if is_split(k.parameters) else str(k.p.out)


def split_arguments(variant: ag.Variant, build: ag.Values) -> tuple[ag.ContractArgument, ...]:
    """The arguments of the product's own kernel."""
    given = _PART_ARGUMENTS if is_split(build) else PRODUCT_ARGUMENTS
    if is_streamed(build) and not is_split(build):
        brief = (PERSISTENT_ARGUMENTS[0], SHARE_ARGUMENT, SHARED_PARTS)  # what the loop leaves no registers for
        return (*given, PERSISTENT_ARGUMENTS[1], *batch_arguments(build, "abdc"), *(replace(one, brief=True) for one in brief))
    further = PERSISTENT_ARGUMENTS if is_persistent(build) else ()
    slots = (replace(SHARED_PARTS, brief=True),) if adds_own_parts(build) else ()
    return (*given, *further, *batch_arguments(build, "ab" if is_split(build) else "abdc"), *slots)


def split_workspaces(variant: ag.Variant, build: ag.Values) -> tuple[ag.Workspace, ...]:
    """The panels of all parts of all matrices, or the parts of tiles that workgroups share."""
    if is_streamed(build):
        return stream_workspaces(variant)
    if adds_own_parts(build):
        return slots_of_workgroups(variant)
    width = variant.tile[1]
    parts = "" if is_atomic(build) else "split_k * "
    size = ag.Formula(f"{_F32} * batch * {parts}{side(build, 'm')} * ceil({side(build, 'n')} / {width}) * {width}",
                      lambda p: _F32 * p["batch"] * held_parts(p) * edges(p)[0] * -(-edges(p)[1] // width) * width)
    return (ag.Workspace("parts", _PARTS.doc, size, zeroed=is_atomic(build)),) if is_split(build) else ()


def sum_rows(width: int) -> int:
    """Rows of D that a wave of the second kernel makes in a column of tiles."""
    return max(1, ag.LANES * PER_LANE // width)


def waves_of_sum(build: ag.Values) -> int:
    """Waves of a workgroup of the second kernel: as many as ask for `_ASKED` KiB together, with the parts of the build that is timed in
    place of this one. Larger workgroups would leave compute units without loads where D has few rows."""
    return max(1, min(_MOST_SUM_WAVES, _ASKED // _timed_parts(held_parts(build))))  # a wave asks for 1 KiB of each part


def _across(p: ag.Values, variant: ag.Variant) -> int:
    return -(-edges(p)[1] // variant.tile[1])


def _split_grid(p: ag.Values, variant: ag.Variant) -> tuple[int, int, int]:
    if is_streamed(p):
        return stream_grid(p)
    if is_persistent(p):
        return persistent_grid(p, variant)
    return _across(p, variant), -(-edges(p)[0] // variant.tile[0]), p["batch"] * p["split_k"]


def _sum_grid(p: ag.Values, variant: ag.Variant) -> tuple[int, int, int]:
    return -(-edges(p)[0] // (waves_of_sum(p) * sum_rows(variant.tile[1]))), _across(p, variant), p["batch"]


_TILES = "ceil(n / {v.tile[1]}), ceil(m / {v.tile[0]})"
_LINES = "ceil(m / ({waves} * 256 / {v.tile[1]})), ceil(n / {v.tile[1]})"
SPLIT_GRID = ag.GridRule(f"{_TILES}, batch * split_k: a workgroup for each tile of D and part of K; m and n change places where D is "
                               "stored by columns", _split_grid)
PERSISTENT_GRID = replace(SPLIT_GRID, sentence=f"{SPLIT_GRID.sentence}. persistent: min(tiles * batch, workgroups), 1, 1")
"""That of a family whose workgroups may take one tile after another."""
STREAM_GRID = replace(PERSISTENT_GRID, sentence=f"{PERSISTENT_GRID.sentence}; stream_k: workgroups, or as many as have a share of fewer "
                      "tiles")
"""That of a family whose workgroups may share tiles too."""
SUM_GRID = ag.GridRule(f"{_LINES}, batch: rows of D, and columns of tiles; m and n change places where D is stored by columns",
                             _sum_grid)


def steps_of_parts(p: ag.Values, depth: int) -> list[int]:
    """The steps of each part that has any, in the order of K."""
    steps = -(-p["k"] // depth)
    each = -(-steps // p.get("split_k", 1))
    return [min(each, steps - first) for first in range(0, steps, each)]


def steps_of_sums(p: ag.Values, depth: int) -> list[int]:
    """The steps of each sum that is made by itself, in the order of K: those of the parts, or of the waves that share one."""
    waves = DEALT_WAVES if p["schedule"] == DEALT else 1
    dealt = [(part, -(-part // waves)) for part in steps_of_parts(p, depth)]
    return [min(each, part - first) for part, each in dealt for first in range(0, part, each)]


def columns_of_sums(p: ag.Values) -> list[int]:
    """The columns of K of each sum that is made by itself."""
    depth = int(str(p["tile"]).rpartition("x")[2])
    if takes_any_k(p) and p["schedule"] == DEALT and p["k"] % depth:
        return _sums_of_waves(p, depth)
    found, left = [], p["k"]
    for steps in steps_of_sums(p, depth):
        found.append(min(left, depth * steps))
        left -= found[-1]
    return found


def _sums_of_waves(p: ag.Values, depth: int) -> list[int]:
    """As `columns_of_sums` where waves share the whole steps of a part, and the last wave of the last one has the K tail too."""
    *parts, last = steps_of_parts(p, depth)
    found = []
    for whole in (*parts, last - 1):
        each = -(-whole // DEALT_WAVES)
        found += [depth * max(0, min(each, whole - wave * each)) for wave in range(DEALT_WAVES)]
    found[-1] += p["k"] % depth
    return [columns for columns in found if columns]


_ALIKE = {"dtype": "bf16", "a_dtype": "e4m3", "b_dtype": "e4m3", "out": "bf16", "bias": "none", "reduce": "ordered", "invariant": False,
          "a_layout": "row", "b_layout": "row", "c_layout": "row", "d_layout": "row", "window": 0, "chunk": 0}
"""What changes the times of a build little."""


def timed_as(build: ag.Values) -> ag.Values:
    """The build whose times are nearly those of one: of bf16 or e4m3 by rows, for whole steps of K and strides of whole dwords, without
    bias, and of the nearest power of two of parts that workgroups share. What workgroups of the product take by the step is the same or
    nearly so, and the second kernel waits for its loads together."""
    split, alike = build["split_k"], {name: value for name, value in _ALIKE.items() if name in build}
    if build.get("scales") == "row":
        alike["scales"] = "tensor"
    never, unless = ("any_k", "any_stride", "pointers"), ("persistent", "stream_k")
    build = {name: value for name, value in build.items() if name not in never and (name not in unless or value)}
    return {**build, **alike, "split_k": split if adds_own_parts(build) else _timed_parts(split)}


def _timed_parts(split: int) -> int:
    """The nearest power of two, which is timed."""
    return min(_MOST_TIMED, 1 << ((2 * split * split).bit_length() - 1) // 2)


def example_of(build: ag.Values, sizes: ag.Values) -> ag.Values:
    """The sizes of an example, with a K that is enough for the parts of a build in turn."""
    steps = LEAST_STEPS * int(build["split_k"]) if adds_own_parts(build) else 0
    return {**sizes, "k": max(int(sizes["k"]), steps * int(str(build["tile"]).rpartition("x")[2]))}


# ---- the product's kernel ----


def to_own_matrices(k: ag.TileBuilder) -> None:
    """Move the pointers to the matrices of the workgroup. With `preload` the first matrix waits for no argument: its strides come later
    than what the hardware loads."""
    with own_matrix(k) as matrix:
        if not k.p.preload or k.parameters.get("pointers"):
            to_matrices(k, matrix)
            return
        first = k.fresh("first_matrix")
        with k.block("to the workgroup's matrices"):
            k.s_cmp_eq_u32(matrix, 0)
            k.s_cbranch_scc1(first)
            to_matrices(k, matrix)
            k.label(first)


@contextmanager
def own_matrix(k: ag.TileBuilder) -> Iterator[ag.Reg]:
    """The number of the workgroup's matrix in a batch."""
    if not is_split(k.parameters):
        yield k.ids["z"]
        return
    with k.scratch("matrix", file="s") as matrix:
        _divide_by_parts(k, matrix, k.ids["z"])
        yield matrix


def own_part(k: ag.TileBuilder, out: ag.Reg) -> None:
    """out = the number of the workgroup's part of K."""
    _divide_by_parts(k, out, k.ids["z"])
    k.s_mul_i32(out, out, k.p.split_k)
    k.s_sub_u32(out, k.ids["z"], out)


def _divide_by_parts(k: ag.TileBuilder, out: ag.Reg, number: ag.Reg) -> None:
    """out = number / split_k, for a number below 2^22."""
    split = k.p.split_k
    if split & (split - 1):
        k.s_mul_hi_u32(out, number, reciprocal(split))
    else:
        k.s_lshr_b32(out, number, split.bit_length() - 1)


def part_of_k(k: ag.TileBuilder, steps: ag.Reg, a: ag.Matrix, b: ag.Matrix) -> tuple[ag.Matrix, ag.Matrix]:
    """A and B from the first column of this workgroup's part on; `steps` becomes those of the part. A workgroup without any ends here."""
    depth = k.variant.tile[2]
    k.wave  # noqa: B018  the wave's number is computed before the branch, which not all workgroups pass
    left = k.registers.sgprs(1, "columns_left", note="columns of A and B from the part's first on")
    has_steps = k.fresh("has_steps")
    with k.scratch("first_step", file="s") as first, k.scratch("each", file="s") as each:
        all_steps(k, steps)
        steps_of_each(k, each, steps)
        own_part(k, first)
        k.s_mul_i32(first, first, each)
        k.s_cmp_lt_u32(first, steps)
        k.s_cbranch_scc1(has_steps)
        k.s_endpgm()
        k.label(has_steps)
        if takes_any_k(k.parameters):
            whole_steps(k, steps)
        k.s_sub_u32(steps, steps, first)
        k.s_min_u32(steps, steps, each)
        k.s_mul_i32(first, first, depth)
        k.s_sub_u32(left, k.argument("k"), first)
        return from_column(k, a, first, left), from_column(k, b, first, left)


def whole_steps(k: ag.TileBuilder, steps: ag.Reg) -> None:
    """steps = those of the loop: K divided by the tile's depth. The last one may be cut where elements are loaded one by one."""
    _steps(k, steps, k.variant.schedule == ELEMENTS)


def all_steps(k: ag.TileBuilder, steps: ag.Reg) -> None:
    """steps = those that parts share: the K tail is one."""
    _steps(k, steps, k.variant.schedule == ELEMENTS or takes_any_k(k.parameters))


def _steps(k: ag.TileBuilder, steps: ag.Reg, up: bool) -> None:
    depth, columns = k.variant.tile[2], k.argument("k")
    kept = columns_kept(k.parameters)
    if up:
        k.s_add_u32(steps, columns, depth - 1)
        columns = steps
    elif kept:
        k.s_max_u32(steps, columns, kept)
        k.s_sub_u32(steps, steps, kept)
        columns = steps
    k.s_lshr_b32(steps, columns, (depth - 1).bit_length())


def part_of_wave(k: ag.TileBuilder, steps: ag.Reg, a: ag.Matrix, b: ag.Matrix) -> tuple[ag.Matrix, ag.Matrix]:
    """A and B from the first column of this wave's part of the workgroup's `steps` on, which become the wave's: as many for each wave, so
    that the last ones may have none. Their number is a power of two."""
    waves, depth = k.wave.count, k.variant.tile[2]
    with k.scratch("first_step", file="s") as first, k.scratch("each", file="s") as each:
        k.s_add_u32(each, steps, waves - 1)
        k.s_lshr_b32(each, each, (waves - 1).bit_length())
        k.s_mul_i32(first, each, k.wave.register)
        k.s_min_u32(first, first, steps)
        k.s_sub_u32(steps, steps, first)
        k.s_min_u32(steps, steps, each)
        k.s_mul_i32(first, first, depth)
        left = k.registers.sgprs(1, "wave_columns", note="columns of A and B from the wave's first on")
        k.s_sub_u32(left, a.rows_register if by_columns(k.parameters, a.name) else a.columns_register, first)
        return from_column(k, a, first, left, "wave"), from_column(k, b, first, left, "wave")


def reciprocal(by: int) -> int:
    """floor(n / by) is the upper half of n times this, for n times `by` below 2^32."""
    return -(-(1 << 32) // by)


def steps_of_each(k: ag.TileBuilder, each: ag.Reg, steps: ag.Reg) -> None:
    """each = ceil(steps / split_k): the steps of a part. Steps are below 2^21, as k is below 2^27 (`product_parameters`)."""
    k.s_add_u32(each, steps, k.p.split_k - 1)
    _divide_by_parts(k, each, each)


def from_column(k: ag.TileBuilder, matrix: ag.Matrix, first: ag.Reg, left: ag.Reg, whose: str = "part") -> ag.Matrix:
    """The matrix from column `first` of K on: of each of its lines, or, where those run along rows, from that line on."""
    pointer = k.registers.sgprs(2, f"{matrix.name}_{whose}", note=f"its first column of the {whose}", align=2)
    if by_columns(k.parameters, matrix.name):
        stride = matrix.stride_bytes(k)
        with k.scratch("bytes", 2, "s") as bytes_:
            k.s_mul_i32(bytes_[0], first, stride)
            k.s_mul_hi_u32(bytes_[1], first, stride)
            k.s_add_u32(pointer[0], matrix.pointer[0], bytes_[0])
            k.s_addc_u32(pointer[1], matrix.pointer[1], bytes_[1])
        return replace(matrix, pointer=pointer, rows_register=left)
    with k.scratch("bytes", file="s") as bytes_:
        k.s_mul_i32(bytes_, first, matrix.bits // 8)
        k.s_add_u32(pointer[0], matrix.pointer[0], bytes_)
        k.s_addc_u32(pointer[1], matrix.pointer[1], 0)
    return replace(matrix, pointer=pointer, columns_register=left)


def epilogue_of(k: ag.TileBuilder) -> Callable[..., ProductEpilogue]:
    """What makes the epilogue of a product that may be split."""
    return part_epilogue if is_split(k.parameters) else product_epilogue


def part_epilogue(k: ag.TileBuilder, corners: Sequence[ag.Corner], row0: ag.Reg, column0: ag.Reg, wm: ag.WaveIndex, wn: ag.WaveIndex,
                  factors: Factors | None = None, overlaps: bool = True, onward: str = "", short: bool = False) -> ProductEpilogue:
    """Store the sums of the part, times `factors` if any, into its panel, rows beyond m left out; or add them to the one panel of all
    parts. Arguments as of `product_epilogue`."""
    def add() -> None:
        with k.scratch("matrix", file="s") as matrix:
            _divide_by_parts(k, matrix, k.ids["z"])
            panel = panel_of(k, column0, matrix)
        beside = [factors.of(corner) for corner in corners] if factors is not None else ()
        with k.scratch("no_column", file="s") as none:
            k.s_mov_b32(none, 0)
            with ag.each_corner(k, corners, row0, none, argument(k, "m"), wm, beside) as at:
                if factors is not None:
                    factors.at(at).apply(at.corner)
                ag.store(k, panel.rows(at.row, at.corner.tile.rows), at.column, [at.corner], None, wn, k.variant.tile[1], add=True)

    def rest() -> None:
        if is_atomic(k.parameters):
            add()
            return
        panel = panel_of(k, column0, k.ids["z"])
        with k.scratch("no_column", file="s") as none:
            k.s_mov_b32(none, 0)
            ag.store_whole(k, panel.rows(row0, k.variant.tile[0]), none, corners, wm, wn, None if factors is None else factors.change)

    return ProductEpilogue(None, None, rest)


def panel_of(k: ag.TileBuilder, column0: ag.Reg, part: ag.Reg) -> ag.Matrix:
    """The sums of the column of tiles that begins at `column0`, of one part among those of all matrices, as a matrix."""
    width = k.variant.tile[1]
    base, stride = k.registers.sgprs(2, "panel", align=2), k.registers.sgprs(1, "panel_columns")
    k.s_mov_b32(stride, width)
    with k.scratch("before", 2, "s") as before:
        k.s_mov_b32(before[0], column0)
        k.s_mov_b32(before[1], 0)
        with k.scratch("columns", 2, "s") as columns:
            columns_of_tiles(k, columns[0])
            k.s_mul_hi_u32(columns[1], columns[0], part)
            k.s_mul_i32(columns[0], columns[0], part)
            k.s_add_u32(before[0], before[0], columns[0])
            k.s_addc_u32(before[1], before[1], columns[1])
        bytes_of_columns(k, before)
        k.s_add_u32(base[0], k.argument("parts")[0], before[0])
        k.s_addc_u32(base[1], k.argument("parts")[1], before[1])
    return ag.Matrix("panel", "f32", base, argument(k, "m"), width, stride)


def columns_of_tiles(k: ag.TileBuilder, columns: ag.Reg) -> None:
    """The columns of all tiles side by side: n, rounded up to whole tiles, whose width is a power of two."""
    width = k.variant.tile[1]
    k.s_add_u32(columns, argument(k, "n"), width - 1)
    k.s_and_b32(columns, columns, -width)


def bytes_of_columns(k: ag.TileBuilder, number: ag.Reg) -> None:
    """A number of columns (64 bits) of m rows becomes their bytes."""
    with k.scratch("high", file="s") as high:
        k.s_mul_i32(number[1], number[1], argument(k, "m"))
        k.s_mul_hi_u32(high, number[0], argument(k, "m"))
        k.s_add_u32(number[1], number[1], high)
        k.s_mul_i32(number[0], number[0], argument(k, "m"))
    k.s_lshl_b64(number, number, _F32.bit_length() - 1)
