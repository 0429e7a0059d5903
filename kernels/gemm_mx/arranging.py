"""The kernel before a product whose scales do not lie as its lanes want them: it makes the dwords of all steps, with 127 (a factor of 1)
where there is no row or no column. A wave makes the 64 dwords of a group of rows for one step, byte by byte: rows may begin anywhere.
"""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.gemm_mx.family import GEMM, OF_A
from asmgen.kernels.gemm_mx.formats import BLOCK, GROUP_ROWS, SCALE_ARGUMENTS, WORDS, arranged, bytes_of_dword, group_rows, is_quantised

_WAVES = 4
_ONE = 127
_SIZES = tuple(ag.ContractArgument(name, "u32", doc) for name, doc in (("m", "rows of A"), ("n", "rows of B"), ("k", "columns of A and B")))


def _grid(p: ag.Values, variant: ag.Variant) -> tuple[int, int, int]:
    groups = sum(-(-p["mn"[axis]] // group_rows(variant.tile, axis)) for axis in range(is_quantised(p), 2))
    return groups, -(-p["k"] // (variant.tile[2] * _WAVES)), p["batch"]


def _arguments(variant: ag.Variant, build: ag.Values) -> tuple[ag.ContractArgument, ...]:
    """Those of the product's own kernel that have to do with scales."""
    return tuple(one for one in (*SCALE_ARGUMENTS, *_SIZES, *WORDS) if not is_quantised(build) or one.name not in OF_A)


@GEMM.companion("arrange", "scales in the order of the product's lanes", _arguments,
                ag.GridRule("groups of rows of A and of B, ceil(k / (4 * {v.tile[2]})), batch", _grid), waves=_WAVES, axes="xyz",
                when=arranged, first=True)
def arrange(k: ag.TileBuilder) -> None:
    """A group of rows, and four steps, a wave each."""
    plan, depth = k.registers, k.variant.tile[2]
    step, steps, row0, rows, stride = (plan.sgprs(1, name) for name in ("step", "steps", "row0", "rows", "stride"))
    source, target = plan.sgprs(2, "source", align=2), plan.sgprs(2, "target", align=2)
    k.s_lshl_b32(step, k.ids["y"], _WAVES.bit_length() - 1)
    k.s_add_u32(step, step, k.wave.register)
    k.s_add_u32(steps, k.argument("k"), depth - 1)
    k.s_lshr_b32(steps, steps, depth.bit_length() - 1)
    k.s_cmp_lt_u32(step, steps)
    some = k.fresh("some")
    k.s_cbranch_scc1(some)
    k.s_endpgm()
    k.label(some)
    _choose(k, step, steps, row0, rows, stride, source, target)
    word = _word(k, step, row0, rows, stride, source)
    at = plan.vgprs(1, "at")
    k.v_lshlrev_b32(at, 2, k.lane)
    k.global_store_dword(at, word, target)


def _choose(k: ag.TileBuilder, step: ag.Reg, steps: ag.Reg, row0: ag.Reg, rows: ag.Reg, stride: ag.Reg, source: ag.Reg,
            target: ag.Reg) -> None:
    """The group's first row, the rows and stride of its matrix, the address of the scales of 32 rows, and that of its dwords."""
    tile = k.variant.tile
    sizes = [group_rows(tile, axis) for axis in range(2)]
    with k.scratch("groups", file="s") as groups, k.scratch("group", file="s") as group, k.scratch("words", 2, "s") as words, \
            k.scratch("apart", 2, "s") as apart:
        if is_quantised(k.parameters):
            k.s_mov_b32(group, k.ids["x"])
            k.s_lshl_b32(row0, group, sizes[1].bit_length() - 1)
            k.s_mov_b32(rows, k.argument("n"))
            k.s_mov_b32(stride, k.argument("ldsb"))
            for out, name in ((source, "b_scale"), (target, "b_words"), (apart, "b_scale_stride_batch")):
                k.s_mov_b64(out, k.argument(name))
            _groups(k, groups, rows, sizes[1])
        else:
            _choose_matrix(k, row0, rows, stride, source, target, groups, group, words, apart)
        # the workgroup's matrix of the batch
        k.s_mul_i32(apart[1], apart[1], k.ids["z"])
        k.s_mul_hi_u32(words[0], apart[0], k.ids["z"])
        k.s_add_u32(apart[1], apart[1], words[0])
        k.s_mul_i32(apart[0], apart[0], k.ids["z"])
        k.s_add_u32(source[0], source[0], apart[0])
        k.s_addc_u32(source[1], source[1], apart[1])
        k.s_mul_i32(groups, groups, k.ids["z"])
        k.s_add_u32(group, group, groups)
        k.s_mul_i32(words[0], group, steps)
        k.s_mul_hi_u32(words[1], group, steps)
        k.s_add_u32(words[0], words[0], step)
        k.s_addc_u32(words[1], words[1], 0)
        k.s_lshl_b64(words, words, (4 * ag.LANES).bit_length() - 1)
        k.s_add_u32(target[0], target[0], words[0])
        k.s_addc_u32(target[1], target[1], words[1])
        k.s_and_b32(group, row0, -GROUP_ROWS)
        k.s_mul_i32(words[0], group, stride)
        k.s_mul_hi_u32(words[1], group, stride)
        k.s_add_u32(source[0], source[0], words[0])
        k.s_addc_u32(source[1], source[1], words[1])


def _choose_matrix(k: ag.TileBuilder, row0: ag.Reg, rows: ag.Reg, stride: ag.Reg, source: ag.Reg, target: ag.Reg, groups: ag.Reg,
                   group: ag.Reg, words: ag.Reg, apart: ag.Reg) -> None:
    """A or B, whose groups come after those of A."""
    sizes = [group_rows(k.variant.tile, axis) for axis in range(2)]
    _groups(k, groups, k.argument("m"), sizes[0])
    k.s_sub_u32(group, k.ids["x"], groups)
    k.s_lshl_b32(row0, group, sizes[1].bit_length() - 1)
    k.s_lshl_b32(words[0], k.ids["x"], sizes[0].bit_length() - 1)
    k.s_cmp_lt_u32(k.ids["x"], groups)
    k.s_cselect_b32(row0, words[0], row0)
    k.s_cselect_b32(group, k.ids["x"], group)
    for out, of_a, of_b in ((rows, "m", "n"), (stride, "ldsa", "ldsb")):
        k.s_cselect_b32(out, k.argument(of_a), k.argument(of_b))
    for out, name in ((source, "scale"), (target, "words"), (apart, "scale_stride_batch")):
        k.s_cselect_b64(out, k.argument(f"a_{name}"), k.argument(f"b_{name}"))
    with k.scratch("others", file="s") as others:
        _groups(k, others, k.argument("n"), sizes[1])  # after the last use of the comparison, which it overwrites
        k.s_cmp_lt_u32(k.ids["x"], groups)
        k.s_cselect_b32(groups, groups, others)


def _groups(k: ag.TileBuilder, out: ag.Reg, rows: ag.Reg, size: int) -> None:
    """How many groups of `size` rows cover so many."""
    k.s_add_u32(out, rows, size - 1)
    k.s_lshr_b32(out, out, size.bit_length() - 1)


def _word(k: ag.TileBuilder, step: ag.Reg, row0: ag.Reg, rows: ag.Reg, stride: ag.Reg, source: ag.Reg) -> ag.Reg:
    """The lane's dword."""
    plan, depth = k.registers, k.variant.tile[2]
    places, across = bytes_of_dword(k.variant.tile, 0, k.p.mfma), int(str(k.p.mfma).partition("x")[0])
    found = [plan.vgprs(1, f"byte{number}") for number in range(len(places))]
    row, along, at, near, far = (plan.vgprs(1, name) for name in ("row", "along", "place", "near", "far"))
    columns, inside = plan.sgprs(1, "columns"), plan.sgprs(2, "inside", align=2)
    k.s_lshr_b32(columns, k.argument("k"), BLOCK.bit_length() - 1)
    k.v_and_b32(row, across - 1, k.lane)
    k.v_lshrrev_b32(along, across.bit_length() - 1, k.lane)
    with k.scratch("first", file="s") as first:
        k.s_lshl_b32(first, step, (depth // BLOCK).bit_length() - 1)
        k.v_add_u32(along, first, along)
        k.s_and_b32(first, row0, GROUP_ROWS - 1)
        k.s_sub_u32(rows, rows, row0)
        k.s_add_u32(rows, rows, first)  # from the source's address on
        k.v_add_u32(row, first, row)
    for byte, (down, right) in zip(found, places, strict=True):
        k.v_mov_b32(byte, _ONE)
        k.v_add_u32(near, down, row)
        k.v_add_u32(far, right, along)
        k.v_cmp_gt_u32(inside, rows, near)
        k.v_cmp_gt_u32(ag.vcc, columns, far)
        _offset(k, at, near, far, stride)
        k.s_and_b64(ag.exec_, inside, ag.vcc)
        k.global_load_ubyte(byte, at, source)
        k.s_mov_b64(ag.exec_, -1)
    for number in range(len(found) - 1, 0, -1):
        k.v_lshl_or_b32(found[number - 1], found[number], 8, found[number - 1])
    return found[0]


def _offset(k: ag.TileBuilder, at: ag.Reg, row: ag.Reg, along: ag.Reg, stride: ag.Reg) -> None:
    """The byte of a scale (row, along) from the address of 32 rows on. `row` and `along` are not kept."""
    if k.p.scale_order == "plain":
        k.v_mul_lo_u32(at, row, stride)
        k.v_add_u32(at, at, along)
        return
    with k.scratch("part") as part:
        k.v_and_b32(at, -GROUP_ROWS, row)
        k.v_mul_lo_u32(at, at, stride)
        k.v_lshrrev_b32(part, 3, along)
        k.v_lshl_add_u32(at, part, 8, at)
        for value, first, count, shift in ((along, 0, 2, 6), (row, 0, 4, 2), (along, 2, 1, 1), (row, 4, 1, 0)):
            k.v_bfe_u32(part, value, first, count)
            k.v_lshl_add_u32(at, part, shift, at)
