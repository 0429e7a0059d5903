"""The inner loops of matrix products in vector instructions: a tile of sums stays in registers over all k.

Written as LLVM code because numba's own loops keep sums in memory and walk short rows one number at a time. Each sum takes its
products by ascending k, as numpy's loop in `matrix_numpy` does. A product of two f32 (or narrower, or scaled) values is exact in
float64, so a fused multiply-add gives the same bits as a multiplication and an addition.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_WIDE_HOST = bool(binding.get_host_cpu_features().get("avx512f"))
ROWS, COLUMNS, LANES = (8, 16, 8) if _WIDE_HOST else (4, 8, 4)
"""Of a tile; LANES doubles are one vector. Its sums take half of the host's vector registers. The size changes no sum's order."""
ROW_BYTES = 256
"""Of a register: 64 words."""
WIDE = 8
"""Values that are decoded together."""
_DOUBLES, _FLOATS = ir.VectorType(ir.DoubleType(), LANES), ir.VectorType(ir.FloatType(), LANES)
_WORDS = ir.VectorType(ir.IntType(32), LANES)
_INDEX = ir.IntType(64)
_WIDE_WORDS, _WIDE_FLOATS = ir.VectorType(ir.IntType(32), WIDE), ir.VectorType(ir.FloatType(), WIDE)
_WIDE_DOUBLES = ir.VectorType(ir.DoubleType(), WIDE)
_QUIET_NAN = ir.Constant(_WORDS, [0x7FC00000] * LANES)


def _at(builder: Any, base: Any, offset: Any, vector: Any) -> Any:
    """The address of element `offset` of `base`, as that of a vector."""
    return builder.bitcast(builder.gep(base, [offset]), vector.as_pointer())


def _arrays(context: Any, builder: Any, kinds: Any, values: Any) -> list[Any]:
    return [context.make_array(kind)(context, builder, value) for kind, value in zip(kinds, values, strict=True)]


def _sum_up(builder: Any, left: Any, right: Any, shape: tuple[Any, Any, Any], corner: tuple[Any, Any], begun: list[Any]) -> list[Any]:
    """`begun` plus the products of a tile over all k; the block after the loop is the builder's."""
    (depth, height, width), (first_row, first_column) = shape, corner
    fma = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_DOUBLES, [_DOUBLES] * 3), f"llvm.fma.v{LANES}f64")
    entry = builder.block
    body, done = builder.append_basic_block("products"), builder.append_basic_block("sums")
    builder.branch(body)
    builder.position_at_end(body)
    k = builder.phi(_INDEX)
    k.add_incoming(_INDEX(0), entry)
    held = [builder.phi(_DOUBLES) for _ in begun]
    for value, start in zip(held, begun, strict=True):
        value.add_incoming(start, entry)
    base = builder.add(builder.mul(k, width), first_column)
    columns = [builder.load(_at(builder, right, builder.add(base, _INDEX(c)), _DOUBLES), align=8) for c in range(0, COLUMNS, LANES)]
    rows_at = builder.add(builder.mul(k, height), first_row)
    after = []
    for r in range(ROWS):
        number = builder.load(builder.gep(left, [builder.add(rows_at, _INDEX(r))]))
        single = builder.insert_element(ir.Constant(_DOUBLES, ir.Undefined), number, ir.IntType(32)(0))
        spread = builder.shuffle_vector(single, ir.Constant(_DOUBLES, ir.Undefined), ir.Constant(_WORDS, [0] * LANES))
        after += [builder.call(fma, [spread, each, held[r * len(columns) + c]]) for c, each in enumerate(columns)]
    following = builder.add(k, _INDEX(1))
    k.add_incoming(following, body)
    for value, result in zip(held, after, strict=True):
        value.add_incoming(result, body)
    builder.cbranch(builder.icmp_signed("<", following, depth), body, done)
    builder.position_at_end(done)
    return after


@intrinsic
def _add_tile(typing_context: Any, a: Any, b: Any, sums: Any, row: Any, column: Any) -> Any:
    """sums[row + r, column + c] += a[k, row + r] * b[k, column + c] by ascending k, for a tile; contiguous arrays of doubles."""
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        arrays = _arrays(context, builder, signature.args[:3], arguments[:3])
        depth, height = cgutils.unpack_tuple(builder, arrays[0].shape)
        width = cgutils.unpack_tuple(builder, arrays[1].shape)[1]
        first_row, first_column = arguments[3:]
        locations = []
        for r in range(ROWS):
            start = builder.add(builder.mul(builder.add(first_row, _INDEX(r)), width), first_column)
            locations += [_at(builder, arrays[2].data, builder.add(start, _INDEX(c)), _DOUBLES) for c in range(0, COLUMNS, LANES)]
        begun = [builder.load(location, align=8) for location in locations]
        sums_after = _sum_up(builder, arrays[0].data, arrays[1].data, (depth, height, width), (first_row, first_column), begun)
        for location, result in zip(locations, sums_after, strict=True):
            builder.store(result, location, align=8)
        return context.get_dummy_value()

    return types.void(a, b, sums, row, column), generate


def _address(builder: Any, base: Any, offset: Any, kind: Any) -> Any:
    """The address `base` + `offset` bytes (numbers) as that of a `kind`."""
    return builder.inttoptr(builder.add(base, offset), kind.as_pointer())


def _prefetch(builder: Any, location: Any) -> None:
    """What lies at the same place in the next wave: a wave's registers are far apart, those of two waves are neighbours."""
    byte = ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [byte, *[ir.IntType(32)] * 3])
    fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
    at = builder.gep(builder.bitcast(location, byte), [_INDEX(ROW_BYTES)])
    builder.call(fetch, [at, ir.IntType(32)(0), ir.IntType(32)(3), ir.IntType(32)(1)])


@intrinsic
def _register_tile(typing_context: Any, a: Any, b: Any, shape: Any, row: Any, column: Any, c: Any, d: Any, at: Any) -> Any:
    """The same with C from floats and D into patterns: row r begins at c + 4 * at[row + r] and d + 4 * at[row + r].

    `shape` is (depth, rows, columns). A, B (doubles), `c` (float32), `d` (uint32) and `at` (int64) are addresses: arrays would be
    taken apart and counted at each call. NaNs become quiet ones.
    """
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left, right, shape, first_row, first_column, source, target, starts = arguments
        shape = tuple(cgutils.unpack_tuple(builder, shape))
        doubles, numbers = ir.DoubleType().as_pointer(), _INDEX.as_pointer()
        left, right, starts = (builder.inttoptr(value, kind) for value, kind in ((left, doubles), (right, doubles), (starts, numbers)))
        offsets = []
        for r in range(ROWS):
            row_at = builder.load(builder.gep(starts, [builder.add(first_row, _INDEX(r))]))
            begin = builder.add(row_at, first_column)
            offsets += [builder.shl(builder.add(begin, _INDEX(c)), _INDEX(2)) for c in range(0, COLUMNS, LANES)]
        locations = [_address(builder, source, offset, _FLOATS) for offset in offsets]
        begun = [builder.fpext(builder.load(location, align=4), _DOUBLES) for location in locations]
        for location in locations[::max(1, COLUMNS // LANES)]:
            _prefetch(builder, location)
        sums = _sum_up(builder, left, right, shape, (first_row, first_column), begun)
        for offset, result in zip(offsets, sums, strict=True):
            pattern = builder.bitcast(builder.fptrunc(result, _FLOATS), _WORDS)
            quiet = builder.select(builder.fcmp_unordered("uno", result, result), _QUIET_NAN, pattern)
            builder.store(quiet, _address(builder, target, offset, _WORDS), align=4)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 2, shape, *[types.int64] * 5), generate


def _splat(value: int) -> Any:
    return ir.Constant(_WIDE_WORDS, [value] * WIDE)


def _bf16(builder: Any, words: Any) -> Any:
    return builder.fpext(builder.bitcast(builder.shl(words, _splat(16)), _WIDE_FLOATS), _WIDE_DOUBLES)


def _f16(builder: Any, halves: Any) -> Any:
    """An f16's bits become those of an f32 whose exponent is 112 too small; denormals come right by the multiplication, too."""
    sign = builder.shl(builder.and_(halves, _splat(0x8000)), _splat(16))
    rest = builder.shl(builder.and_(halves, _splat(0x7FFF)), _splat(13))
    exponent = builder.and_(halves, _splat(0x7C00))
    special = builder.select(builder.icmp_unsigned("==", exponent, _splat(0x7C00)), _splat(0x7F800000), _splat(0))
    pattern = builder.or_(builder.or_(sign, rest), special)
    values = builder.fpext(builder.bitcast(pattern, _WIDE_FLOATS), _WIDE_DOUBLES)
    return builder.fmul(values, ir.Constant(_WIDE_DOUBLES, [2.0**112] * WIDE))


def _eight_bits(mantissa: int, bias: int, special: Any) -> Any:
    """Of 8-bit floats: their bits become those of an f32 whose exponent is too small, as f16's do. `special` makes patterns right that are
    no such number, from the builder, the codes without sign and with it, and the patterns."""
    def decode(builder: Any, words: Any) -> Any:
        codes = builder.and_(words, _splat(0xFF))
        sign, rest = builder.shl(builder.and_(codes, _splat(0x80)), _splat(24)), builder.and_(codes, _splat(0x7F))
        pattern = special(builder, rest, codes, builder.or_(sign, builder.shl(rest, _splat(23 - mantissa))))
        values = builder.fpext(builder.bitcast(pattern, _WIDE_FLOATS), _WIDE_DOUBLES)
        return builder.fmul(values, ir.Constant(_WIDE_DOUBLES, [2.0**(127 - bias)] * WIDE))

    return decode


def _nan_in_e4m3(builder: Any, rest: Any, codes: Any, pattern: Any) -> Any:
    return builder.select(builder.icmp_unsigned("==", rest, _splat(0x7F)), _splat(0x7FC00000), pattern)


def _last_exponent_in_e5m2(builder: Any, rest: Any, codes: Any, pattern: Any) -> Any:
    infinite = builder.icmp_unsigned(">=", rest, _splat(0x7C))
    return builder.or_(pattern, builder.select(infinite, _splat(0x7F800000), _splat(0)))


def _nan_in_fnuz(builder: Any, rest: Any, codes: Any, pattern: Any) -> Any:
    return builder.select(builder.icmp_unsigned("==", codes, _splat(0x80)), _splat(0x7FC00000), pattern)


def _decoder(decode: Any) -> Any:
    @intrinsic
    def widen(typing_context: Any, start: Any, shift: Any, out: Any, count: Any) -> Any:
        """The values at bit `shift` of `count` words (a multiple of WIDE) as doubles; `start` and `out` are addresses."""
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            start, shift, out, count = arguments
            single = builder.insert_element(ir.Constant(_WIDE_WORDS, ir.Undefined), builder.trunc(shift, ir.IntType(32)), ir.IntType(32)(0))
            shifts = builder.shuffle_vector(single, ir.Constant(_WIDE_WORDS, ir.Undefined), _splat(0))
            _prefetch(builder, _address(builder, start, _INDEX(0), _WIDE_WORDS))
            with cgutils.for_range_slice(builder, _INDEX(0), count, _INDEX(WIDE)) as (x, _):
                source = _address(builder, start, builder.shl(x, _INDEX(2)), _WIDE_WORDS)
                words = builder.lshr(builder.load(source, align=4), shifts)
                builder.store(decode(builder, words), _address(builder, out, builder.shl(x, _INDEX(3)), _WIDE_DOUBLES), align=8)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 4), generate

    return widen


# As compiled code calls them, without the typing context.
add_tile: Any = _add_tile
register_tile: Any = _register_tile
widen_bf16: Any = _decoder(_bf16)
widen_f16: Any = _decoder(_f16)
widen_e4m3: Any = _decoder(_eight_bits(3, 7, _nan_in_e4m3))
widen_e5m2: Any = _decoder(_eight_bits(2, 15, _last_exponent_in_e5m2))
widen_e4m3_fnuz: Any = _decoder(_eight_bits(3, 8, _nan_in_fnuz))
widen_e5m2_fnuz: Any = _decoder(_eight_bits(2, 16, _nan_in_fnuz))
