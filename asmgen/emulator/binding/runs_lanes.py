"""What one lane instruction of a compiled run does to 64 lanes: LLVM vectors of 64 words, one case of a switch for each operation.

`lanes(operation, out, a, b, c, mask, extra)` takes addresses of rows of 64 words (`out` may be a source), a lane mask, and what else the
operation wants to know; it returns a lane mask (0 where the operation makes none).

These meanings stand beside those of `semantics.meaning` for the sake of speed: a run is one call for many instructions. The numpy
functions of the tables `integers` and `floats` are the test of each. Written as LLVM code because numba walks short rows one number at a
time, and compiles each loop for long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from asmgen.emulator.binding.microops import FLUSH_IN, FLUSH_OUT, IEEE, OPERATIONS

LANES = 64
_I32, _F32, _I64 = ir.IntType(32), ir.FloatType(), ir.IntType(64)
_WORDS, _FLOATS = ir.VectorType(_I32, LANES), ir.VectorType(_F32, LANES)
_WIDE, _BITS = ir.VectorType(_I64, LANES), ir.VectorType(ir.IntType(1), LANES)
_PART = 8
_DOUBLES, _PART_FLOATS = ir.VectorType(ir.DoubleType(), _PART), ir.VectorType(_F32, _PART)
_PART_WORDS, _PART_WIDE = ir.VectorType(_I32, _PART), ir.VectorType(_I64, _PART)


def words(value: int) -> Any:
    """A number in every lane."""
    return ir.Constant(_WORDS, [value & 0xFFFFFFFF] * LANES)


class LaneCode:
    """Builds the code of one case: its sources, and helpers on vectors of 64 words."""

    def __init__(self, builder: Any, mask: Any, extra: Any, sources: tuple[Any, Any, Any], out: Any) -> None:
        self.b = builder
        self.mask, self.extra, self.out = mask, extra, out
        self._sources = sources

    def source(self, number: int) -> Any:
        """Words of a source."""
        return self.b.load(self.b.inttoptr(self._sources[number], _WORDS.as_pointer()), align=4)

    def row(self, number: int) -> Any:
        """The address of a source's words."""
        return self._sources[number]

    def given(self) -> Any:
        """The lane mask as 64 bits."""
        return self.b.bitcast(self.mask, _BITS)

    def bits(self, flags: Any) -> Any:
        """64 bits as a lane mask."""
        return self.b.bitcast(flags, _I64)

    def floats(self, value: Any) -> Any:
        """Words as f32."""
        return self.b.bitcast(value, _FLOATS)

    def pattern(self, value: Any) -> Any:
        """f32 as words."""
        return self.b.bitcast(value, _WORDS)

    def wide(self, value: Any, signed: bool = False) -> Any:
        """As 64-bit numbers."""
        return self.b.sext(value, _WIDE) if signed else self.b.zext(value, _WIDE)

    def flag(self, bit: int) -> Any:
        """Whether a bit of `extra` is set, one truth for all lanes."""
        return self.b.icmp_unsigned("!=", self.b.and_(self.extra, _I64(bit)), _I64(0))

    def call(self, name: str, kind: Any, *values: Any) -> Any:
        """An LLVM function on vectors."""
        function = cgutils.get_or_insert_function(self.b.module, ir.FunctionType(kind, [value.type for value in values]), name)
        return self.b.call(function, values)

    def flushed(self, value: Any, bit: int) -> Any:
        """f32 patterns, denormals as zeros of their sign where `extra` has the bit."""
        b = self.b
        small = b.icmp_unsigned("<", b.and_(value, words(0x7FFFFFFF)), words(0x00800000))
        limit = b.select(self.flag(bit), words(0x80000000), words(0xFFFFFFFF))
        return b.select(small, b.and_(value, limit), value)


Body = Callable[[LaneCode, Any, Any, Any], Any]


def _float(combine: Callable[..., Any], count: int) -> Body:
    def body(l: LaneCode, *sources: Any) -> Any:
        values = [l.floats(l.flushed(source, FLUSH_IN)) for source in sources[:count]]
        return l.flushed(l.pattern(combine(l, *values)), FLUSH_OUT)

    return body


def _first_nan(combine: Callable[..., Any], count: int) -> Body:
    """`_float`; of several NaNs the first goes on. LLVM's own instructions give any of them, as it takes their sources in any order."""
    def chosen(l: LaneCode, *values: Any) -> Any:
        result = combine(l, *values)
        for value in reversed(values):
            quiet = l.floats(l.b.or_(l.pattern(value), words(0x00400000)))
            result = l.b.select(l.b.fcmp_unordered("uno", value, value), quiet, result)
        return result

    return _float(chosen, count)


def _choose(l: LaneCode, x: Any, y: Any, smaller: bool) -> Any:
    """The larger or smaller of two f32 patterns as v_max_f32 and v_min_f32 have it, as `kernels._select`."""
    b = l.b
    flip = words(0xFFFFFFFF if smaller else 0)
    keys = [b.xor(b.xor(v, b.and_(b.ashr(v, words(31)), words(0x7FFFFFFF))), flip) for v in (x, y)]
    sizes = [b.and_(v, words(0x7FFFFFFF)) for v in (x, y)]
    quiet = [b.or_(v, words(0x00400000)) for v in (x, y)]
    signaling = [b.and_(b.and_(b.icmp_unsigned(">", s, words(0x7F800000)), b.icmp_unsigned("<", s, words(0x7FC00000))),
                        b.icmp_unsigned("!=", _everywhere(l, l.flag(IEEE)), words(0))) for s in sizes]
    result = b.select(b.icmp_signed(">", keys[0], keys[1]), x, y)
    result = b.select(b.icmp_unsigned(">", sizes[1], words(0x7F800000)), x, result)
    result = b.select(b.icmp_unsigned(">", sizes[0], words(0x7F800000)), y, result)
    return b.select(signaling[0], quiet[0], b.select(signaling[1], quiet[1], result))


def _everywhere(l: LaneCode, flag: Any) -> Any:
    return l.b.select(flag, words(0xFFFFFFFF), words(0))


def _extreme(smaller: bool, count: int) -> Body:
    def body(l: LaneCode, *sources: Any) -> Any:
        values = [l.flushed(l.flushed(source, FLUSH_IN), FLUSH_OUT) for source in sources[:count]]
        result = _choose(l, values[0], values[1], smaller)
        return result if count == 2 else _choose(l, result, values[2], smaller)

    return body


def _exponential(l: LaneCode, x: Any, y: Any, z: Any) -> None:
    """2**x as `kernels.exp2_f32`: a polynomial in f64, eight lanes at a time."""
    b = l.b

    def numbers(value: float) -> Any:
        return ir.Constant(_DOUBLES, [value] * _PART)

    def singles(value: float) -> Any:
        return ir.Constant(_PART_FLOATS, [value] * _PART)

    with cgutils.for_range_slice(b, _I64(0), _I64(4 * LANES), _I64(4 * _PART)) as (at, _):
        value = b.load(b.inttoptr(b.add(l.row(0), at), _PART_FLOATS.as_pointer()), align=4)
        inside = b.select(b.fcmp_ordered(">", value, singles(-150.0)), value, singles(-150.0))
        inside = b.select(b.fcmp_ordered("<", inside, singles(150.0)), inside, singles(150.0))
        whole = l.call(f"llvm.floor.v{_PART}f32", _PART_FLOATS, b.fadd(inside, singles(0.5)))
        f = b.fsub(b.fpext(inside, _DOUBLES), b.fpext(whole, _DOUBLES))
        p = numbers(_EXP2[0])
        for factor in _EXP2[1:]:
            p = l.call(f"llvm.fma.v{_PART}f64", _DOUBLES, p, f, numbers(factor))
        exponent = b.add(b.sext(b.fptosi(whole, _PART_WORDS), _PART_WIDE), ir.Constant(_PART_WIDE, [1023] * _PART))
        scale = b.bitcast(b.shl(exponent, ir.Constant(_PART_WIDE, [52] * _PART)), _DOUBLES)
        result = b.fptrunc(b.fmul(p, scale), _PART_FLOATS)
        result = b.select(b.fcmp_ordered("<", result, singles(2.0**-126)), singles(0.0), result)
        result = b.select(b.fcmp_unordered("uno", value, value), b.fadd(value, value), result)
        b.store(result, b.inttoptr(b.add(l.out, at), _PART_FLOATS.as_pointer()), align=4)


_EXP2 = (1.0178086009239699e-07, 1.3215486790144307e-06, 1.5252733804059838e-05, 1.5403530393381609e-04, 1.3333558146428443e-03,
         9.6181291076284772e-03, 5.5504108664821580e-02, 2.4022650695910072e-01, 6.9314718055994531e-01, 1.0)


def _low24(l: LaneCode, value: Any) -> Any:
    return l.b.and_(value, words(0xFFFFFF))


def _signed24(l: LaneCode, value: Any) -> Any:
    return l.b.ashr(l.b.shl(value, words(8)), words(8))


def _high(signed: bool) -> Body:
    def body(l: LaneCode, x: Any, y: Any, z: Any) -> Any:
        product = l.b.mul(l.wide(x, signed), l.wide(y, signed))
        return l.b.trunc(l.b.lshr(product, ir.Constant(_WIDE, [32] * LANES)), _WORDS)

    return body


def _extract(l: LaneCode, x: Any, y: Any, z: Any) -> Any:
    b = l.b
    mask = b.sub(b.shl(words(1), b.and_(z, words(31))), words(1))
    return b.and_(b.lshr(x, b.and_(y, words(31))), mask)


def _extract_signed(l: LaneCode, x: Any, y: Any, z: Any) -> Any:
    b = l.b
    size = b.and_(z, words(31))
    field = b.and_(b.ashr(x, b.and_(y, words(31))), b.sub(b.shl(words(1), size), words(1)))
    by = b.and_(b.sub(words(32), size), words(31))
    return b.select(b.icmp_unsigned("==", size, words(0)), words(0), b.ashr(b.shl(field, by), by))


def _align(unit: int) -> Body:
    def body(l: LaneCode, x: Any, y: Any, z: Any) -> Any:
        by = l.b.and_(z, words(31)) if unit == 1 else l.b.shl(l.b.and_(z, words(3)), words(3))
        return l.call(f"llvm.fshr.v{LANES}i32", _WORDS, x, y, by)

    return body


def _permuted(l: LaneCode, x: Any, y: Any, z: Any) -> Any:
    """v_perm_b32, as `integers.permute_bytes`: each byte of `z` chooses one of the eight of y and x, a sign, zeros or ones."""
    b = l.b
    result = words(0)
    for location in range(0, 32, 8):
        select = b.and_(b.lshr(z, words(location)), words(0xFF))
        low = b.and_(select, words(3))
        source = b.select(b.icmp_unsigned("!=", b.and_(select, words(4)), words(0)), x, y)
        byte = b.and_(b.lshr(source, b.shl(low, words(3))), words(0xFF))
        half = b.select(b.icmp_unsigned("!=", b.and_(select, words(2)), words(0)), x, y)
        sign = b.ashr(b.shl(half, b.select(b.icmp_unsigned("!=", b.and_(select, words(1)), words(0)), words(0), words(16))), words(31))
        other = b.select(b.icmp_unsigned(">", select, words(12)), words(0xFF), b.and_(sign, words(0xFF)))
        other = b.select(b.icmp_unsigned("==", select, words(12)), words(0), other)
        byte = b.select(b.icmp_unsigned("<", select, words(8)), byte, other)
        result = b.or_(result, b.shl(byte, words(location)))
    return result


def _truth(l: LaneCode, x: Any, y: Any, z: Any) -> Any:
    """v_bitop3: `extra` is the truth table."""
    b = l.b
    result = words(0)
    for row in range(8):
        terms = [v if row >> 2 - n & 1 else b.not_(v) for n, v in enumerate((x, y, z))]
        result = b.or_(result, b.and_(_everywhere(l, l.flag(1 << row)), b.and_(b.and_(terms[0], terms[1]), terms[2])))
    return result


def _ordered(signed: bool, relation: str) -> Body:
    def body(l: LaneCode, x: Any, y: Any, z: Any) -> Any:
        return l.b.select((l.b.icmp_signed if signed else l.b.icmp_unsigned)(relation, x, y), x, y)

    return body


def _bf16(l: LaneCode, value: Any) -> Any:
    """f32 patterns to bf16 in the low half: nearest even; NaNs keep their upper payload and become quiet."""
    b = l.b
    odd = b.and_(b.lshr(value, words(16)), words(1))
    rounded = b.lshr(b.add(b.add(value, words(0x7FFF)), odd), words(16))
    nan = b.icmp_unsigned(">", b.and_(value, words(0x7FFFFFFF)), words(0x7F800000))
    return b.select(nan, b.or_(b.lshr(value, words(16)), words(0x40)), rounded)


def _below(high: bool) -> Body:
    masks = ir.Constant(_WORDS, [((1 << lane) - 1) >> (32 if high else 0) & 0xFFFFFFFF for lane in range(LANES)])

    def body(l: LaneCode, x: Any, y: Any, z: Any) -> Any:
        return l.b.add(l.call(f"llvm.ctpop.v{LANES}i32", _WORDS, l.b.and_(x, masks)), y)

    return body


def _to_integer(signed: bool) -> Body:
    name = f"llvm.fpto{'s' if signed else 'u'}i.sat.v{LANES}i32.v{LANES}f32"
    return lambda l, x, y, z: l.call(name, _WORDS, l.floats(x))


def _whole(name: str) -> Body:
    return _float(lambda l, x: l.call(f"llvm.{name}.v{LANES}f32", _FLOATS, x), 1)


def _pack_high(l: LaneCode, low: Any, high: Any) -> Any:
    return l.b.or_(low, l.b.shl(high, words(16)))


RESULTS: dict[str, Body] = {
    "mov": lambda l, x, y, z: x,
    "not": lambda l, x, y, z: l.b.not_(x),
    "neg": lambda l, x, y, z: l.b.xor(x, words(0x80000000)),
    "abs": lambda l, x, y, z: l.b.and_(x, words(0x7FFFFFFF)),
    "select": lambda l, x, y, z: l.b.select(l.given(), y, x),
    "add": lambda l, x, y, z: l.b.add(x, y),
    "sub": lambda l, x, y, z: l.b.sub(x, y),
    "mul": lambda l, x, y, z: l.b.mul(x, y),
    "mul_hi_u": _high(False),
    "mul_hi_i": _high(True),
    "and": lambda l, x, y, z: l.b.and_(x, y),
    "or": lambda l, x, y, z: l.b.or_(x, y),
    "xor": lambda l, x, y, z: l.b.xor(x, y),
    "xnor": lambda l, x, y, z: l.b.not_(l.b.xor(x, y)),
    "shl": lambda l, x, y, z: l.b.shl(x, l.b.and_(y, words(31))),
    "lshr": lambda l, x, y, z: l.b.lshr(x, l.b.and_(y, words(31))),
    "ashr": lambda l, x, y, z: l.b.ashr(x, l.b.and_(y, words(31))),
    "min_u": _ordered(False, "<"), "max_u": _ordered(False, ">"), "min_i": _ordered(True, "<"), "max_i": _ordered(True, ">"),
    "mul_u24": lambda l, x, y, z: l.b.mul(_low24(l, x), _low24(l, y)),
    "mul_i24": lambda l, x, y, z: l.b.mul(_signed24(l, x), _signed24(l, y)),
    "mad_u24": lambda l, x, y, z: l.b.add(l.b.mul(_low24(l, x), _low24(l, y)), z),
    "mad_i24": lambda l, x, y, z: l.b.add(l.b.mul(_signed24(l, x), _signed24(l, y)), z),
    "lshl_add": lambda l, x, y, z: l.b.add(l.b.shl(x, l.b.and_(y, words(31))), z),
    "add_lshl": lambda l, x, y, z: l.b.shl(l.b.add(x, y), l.b.and_(z, words(31))),
    "add3": lambda l, x, y, z: l.b.add(l.b.add(x, y), z),
    "xad": lambda l, x, y, z: l.b.add(l.b.xor(x, y), z),
    "lshl_or": lambda l, x, y, z: l.b.or_(l.b.shl(x, l.b.and_(y, words(31))), z),
    "and_or": lambda l, x, y, z: l.b.or_(l.b.and_(x, y), z),
    "or3": lambda l, x, y, z: l.b.or_(l.b.or_(x, y), z),
    "bfe_u": _extract, "bfe_i": _extract_signed,
    "bfi": lambda l, x, y, z: l.b.or_(l.b.and_(x, y), l.b.and_(l.b.not_(x), z)),
    "bfm": lambda l, x, y, z: l.b.shl(l.b.sub(l.b.shl(words(1), l.b.and_(x, words(31))), words(1)), l.b.and_(y, words(31))),
    "alignbit": _align(1), "alignbyte": _align(8), "perm": _permuted,
    "bitop3": _truth,
    "bcnt": lambda l, x, y, z: l.b.add(l.call(f"llvm.ctpop.v{LANES}i32", _WORDS, x), y),
    "mbcnt_lo": _below(False), "mbcnt_hi": _below(True),
    "add_f32": _first_nan(lambda l, x, y: l.b.fadd(x, y), 2), "sub_f32": _first_nan(lambda l, x, y: l.b.fsub(x, y), 2),
    "mul_f32": _first_nan(lambda l, x, y: l.b.fmul(x, y), 2),
    "fma_f32": _first_nan(lambda l, x, y, z: l.call(f"llvm.fma.v{LANES}f32", _FLOATS, x, y, z), 3),
    "max_f32": _extreme(False, 2), "min_f32": _extreme(True, 2), "max3_f32": _extreme(False, 3), "min3_f32": _extreme(True, 3),
    "exp_f32": _exponential,
    "cvt_f32_u32": lambda l, x, y, z: l.pattern(l.b.uitofp(x, _FLOATS)),
    "cvt_f32_i32": lambda l, x, y, z: l.pattern(l.b.sitofp(x, _FLOATS)),
    "cvt_u32_f32": _to_integer(False), "cvt_i32_f32": _to_integer(True),
    "cvt_pk_bf16": lambda l, x, y, z: _pack_high(l, _bf16(l, l.flushed(x, FLUSH_IN)), _bf16(l, l.flushed(y, FLUSH_IN))),
}
"""Operations that make words, masked by EXEC where they are stored."""

def _relating(signed: bool, relation: str) -> Body:
    return lambda l, x, y, z: (l.b.icmp_signed if signed else l.b.icmp_unsigned)(relation, x, y)


FLAGS: dict[str, Callable[[LaneCode, Any, Any, Any], Any]] = {}
"""Operations that make a lane mask."""
for _name, _relation in (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">=")):
    FLAGS[f"cmp_{_name}_u"], FLAGS[f"cmp_{_name}_i"] = _relating(False, _relation), _relating(True, _relation)
for _name, _relation, _ordering in (
        ("eq", "==", 1), ("lt", "<", 1), ("le", "<=", 1), ("gt", ">", 1), ("ge", ">=", 1), ("lg", "!=", 1), ("o", "ord", 1),
        ("neq", "!=", 0), ("nlt", ">=", 0), ("nle", ">", 0), ("ngt", "<=", 0), ("nge", "<", 0), ("nlg", "==", 0), ("u", "uno", 0)):
    def _compare(l: LaneCode, x: Any, y: Any, z: Any, relation: str = _relation, ordered: int = _ordering) -> Any:
        left, right = (l.floats(l.flushed(value, FLUSH_IN)) for value in (x, y))
        return (l.b.fcmp_ordered if ordered else l.b.fcmp_unordered)(relation, left, right)

    FLAGS[f"cmp_{_name}_f"] = _compare


def _carry(subtract: bool) -> Callable[[LaneCode, Any, Any, Any], tuple[Any, Any]]:
    """Words and lane mask of x + y + mask or x - y - mask."""
    def body(l: LaneCode, x: Any, y: Any, z: Any) -> tuple[Any, Any]:
        b = l.b
        carried = b.zext(l.given(), _WORDS)
        if subtract:
            first = b.sub(x, y)
            flags = b.or_(b.icmp_unsigned("<", x, y), b.icmp_unsigned("<", first, carried))
            return b.sub(first, carried), flags
        first = b.add(x, y)
        total = b.add(first, carried)
        return total, b.or_(b.icmp_unsigned("<", first, x), b.icmp_unsigned("<", total, first))

    return body


BOTH = {"add_carry": _carry(False), "sub_borrow": _carry(True)}
"""Operations that make words and a lane mask."""
CASES = {**RESULTS, **FLAGS, **BOTH}
assert set(CASES) == set(OPERATIONS), set(CASES) ^ set(OPERATIONS)


@intrinsic
def _lanes(typing_context: Any, operation: Any, out: Any, a: Any, b: Any, c: Any, mask: Any, extra: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number, target, first, second, third, mask, extra = arguments
        entry, done = builder.block, builder.append_basic_block("stored")
        with builder.goto_block(done):
            answer = builder.phi(_I64)
        switch = builder.switch(number, done)
        answer.add_incoming(_I64(0), entry)
        for name, index in OPERATIONS.items():
            block = builder.append_basic_block(name)
            switch.add_case(_I64(index), block)
            builder.position_at_end(block)
            lanes = LaneCode(builder, mask, extra, (first, second, third), target)
            made = CASES[name](lanes, *(lanes.source(n) for n in range(3)))
            flags = None
            if name in FLAGS:
                made, flags = None, made
            elif name in BOTH:
                made, flags = made
            if made is not None:
                builder.store(made, builder.inttoptr(target, _WORDS.as_pointer()), align=4)
            answer.add_incoming(_I64(0) if flags is None else lanes.bits(flags), builder.block)
            builder.branch(done)
        builder.position_at_end(done)
        return answer

    return types.int64(*[types.int64] * 7), generate


@intrinsic
def _spread(typing_context: Any, out: Any, value: Any) -> Any:
    """A number into all 64 words of a row."""
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, value = arguments
        single = builder.insert_element(ir.Constant(_WORDS, ir.Undefined), builder.trunc(value, _I32), _I32(0))
        row = builder.shuffle_vector(single, ir.Constant(_WORDS, ir.Undefined), ir.Constant(_WORDS, [0] * LANES))
        builder.store(row, builder.inttoptr(target, _WORDS.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


# As compiled code calls them, without the typing context.
lanes: Any = _lanes
spread: Any = _spread
