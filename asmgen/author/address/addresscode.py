"""The shortest instruction sequence that computes a lane's address: planned from the address as a function of lane, wave and the like.

`plan` searches: all values that two operations make of the inputs (with the shifts, masks, fields and strides that the address itself
suggests), pairs of them joined by one more operation, and sums of parts planned the same way. Three-operand instructions
(lshl_add, and_or, mad, xad, add3, add_lshl) come from fusing pairs. What comes out is evaluated at every point before it is returned.
Constants stand where the encoding takes them: literals in two-operand instructions only, at most one scalar register each.

Nothing is emitted here: an `Op` names its opcode and operands, and the builder assigns registers.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence

from asmgen.author.address.addressvalues import Computed, Space, fused, ops_of
from asmgen.isa.layout import LayoutError
from asmgen.isa.records import dataclass

Address = Callable[..., int]
_Point = Mapping[str, int]
_At = Callable[[_Point], int]
_LARGEST_START = 512
"""Bytes of which a swizzle may have inverted bits everywhere: more than any mask has."""
SAMPLES = 24
"""Random points on which the search compares; the result is compared at all points."""


@dataclass(frozen=True)
class Input:
    """A register that the address depends on: its values are 0 to size - 1. `scalar` ones are in an SGPR."""

    name: str
    size: int
    scalar: bool = False


@dataclass(frozen=True)
class Op:
    """One instruction: `result` = `opcode`(operands in assembly order). An operand is a number or a name, of an input or earlier result.

    Scalar instructions but s_mul_i32 overwrite SCC.
    """

    opcode: str
    result: str
    operands: tuple[str | int, ...]

    def __str__(self) -> str:
        return f"{self.opcode} {self.result}, {', '.join(map(str, self.operands))}"


@dataclass(frozen=True)
class AddressCode:
    """A planned address: after `ops`, it is `result` (an input, an op's result, or None where it is constant) + `constant`."""

    ops: tuple[Op, ...]
    result: str | None
    constant: int

    def at_all(self, points: Sequence[_Point]) -> tuple[int, ...]:
        """The addresses at all points."""
        known: dict[str, Sequence[int]] = {name: [point[name] for point in points] for name in points[0]}
        for op in self.ops:
            columns = [known[part] if isinstance(part, str) else [part] * len(points) for part in op.operands]
            compute = SEMANTICS[op.opcode]
            known[op.result] = [compute(*operands) & 0xFFFFFFFF for operands in zip(*columns, strict=True)]
        return tuple([self.constant + value for value in (known[self.result] if self.result is not None else [0] * len(points))])

    def evaluate(self, **values: int) -> int:
        """The address at given inputs."""
        return self.at_all([values])[0]

    @property
    def vector_ops(self) -> int:
        """How many of the instructions are VALU."""
        return sum(op.opcode.startswith("v_") for op in self.ops)


def _bfe(value: int, offset: int, width: int) -> int:
    return value >> offset & (1 << width) - 1


SEMANTICS: Mapping[str, Callable[..., int]] = {
    "v_lshlrev_b32": lambda shift, value: value << shift,
    "v_lshrrev_b32": lambda shift, value: value >> shift,
    "v_and_b32": lambda a, b: a & b,
    "v_xor_b32": lambda a, b: a ^ b,
    "v_add_u32": lambda a, b: a + b,
    "v_sub_u32": lambda a, b: a - b,
    "v_mul_u32_u24": lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF),
    "v_bfe_u32": _bfe,
    "v_lshl_add_u32": lambda a, shift, b: (a << shift) + b,
    "v_lshl_or_b32": lambda a, shift, b: a << shift | b,
    "v_and_or_b32": lambda a, b, c: a & b | c,
    "v_add_lshl_u32": lambda a, b, shift: a + b << shift,
    "v_add3_u32": lambda a, b, c: a + b + c,
    "v_xad_u32": lambda a, b, c: (a ^ b) + c,
    "v_mad_u32_u24": lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c,
    "s_lshl_b32": lambda value, shift: value << shift,
    "s_lshr_b32": lambda value, shift: value >> shift,
    "s_and_b32": lambda a, b: a & b,
    "s_xor_b32": lambda a, b: a ^ b,
    "s_add_u32": lambda a, b: a + b,
    "s_mul_i32": lambda a, b: a * b,
    "s_bfe_u32": lambda value, field: _bfe(value, field & 31, field >> 16 & 127),
}
"""What each opcode of a plan computes, operands in assembly order, before truncation to 32 bits."""


def plan(address: Address, inputs: Sequence[Input], effort: int = 1) -> AddressCode:
    """The code of an address, given as a function of the inputs' values by name.

    `effort` is how many times an address may be cut into parts that are planned alone. The result is right at all points: that is
    checked. Raises LayoutError for a negative address, one beyond 31 bits, or one of which no sum of shifted and masked inputs was found.
    """
    names = [one.name for one in inputs]
    wanted = [address(**point) for point in _points(inputs)]
    if min(wanted) < 0 or max(wanted) >= 1 << 31:
        raise LayoutError(f"addresses from {min(wanted)} to {max(wanted)} are not 31-bit numbers")
    base = min(wanted)
    standing = tuple([Input(f"i{number}", one.size, one.scalar) for number, one in enumerate(inputs)])
    moved = tuple([value - base for value in wanted])
    # All that the search makes is 0 where the inputs are: it would look for long at an address that is not.
    code = (None if moved[0] else _from_zero(moved, standing, effort)) or _inverted(moved, standing, effort)
    if code is None:
        raise LayoutError(f"no short code was found for the address: it is no sum of shifted, masked and multiplied {', '.join(names)}")
    own: dict[str | int, str] = {one.name: name for one, name in zip(standing, names, strict=True)}
    ops = tuple([Op(op.opcode, op.result, tuple([own.get(part, part) for part in op.operands])) for op in code.ops])
    return AddressCode(ops, None if code.result is None else own.get(code.result, code.result), base + code.constant)


def _inverted(moved: tuple[int, ...], inputs: tuple[Input, ...], effort: int) -> AddressCode | None:
    """The code of a swizzled address some of whose bits are always inverted, which began at more than 0 before it was moved there."""
    for start in range(0, _LARGEST_START, 16):
        bits = moved[0] + start
        plain = tuple([(value + start) ^ bits for value in moved])
        code = _from_zero(plain, inputs, effort) if bits and _is_linear(plain) else None
        if code is not None and code.result is not None:
            scalar = next((one.scalar for one in inputs if one.name == code.result), bool(code.ops) and code.ops[-1].opcode[0] == "s")
            last = Op("s_xor_b32" if scalar else "v_xor_b32", f"t{len(code.ops)}", (bits, code.result))
            return AddressCode((*code.ops, last), last.result, -start)
    return None


def _is_linear(values: Sequence[int]) -> bool:
    """Whether each bit of the inputs, whose sizes are powers of two, inverts bits of its own choice in the address."""
    return not len(values) & (len(values) - 1) and all(
        value == values[number & -number] ^ values[number & (number - 1)] for number, value in enumerate(values) if number)


def _points(inputs: Sequence[Input]) -> list[dict[str, int]]:
    """All values of the inputs, the last one's fastest."""
    names = [one.name for one in inputs]
    return [dict(zip(names, values, strict=True)) for values in itertools.product(*(range(one.size) for one in inputs))]


@functools.lru_cache(maxsize=512)
def _from_zero(wanted: tuple[int, ...], inputs: tuple[Input, ...], effort: int) -> AddressCode | None:
    """The code of an address whose least value is 0, given at `_points`: matrices of one kernel, and of many, want the same."""
    points = _points(inputs)
    weights = {one.name: math.prod([later.size for later in inputs[number + 1:]]) for number, one in enumerate(inputs)}

    def address(point: _Point) -> int:
        return wanted[sum([value * weights[name] for name, value in point.items()])]

    for chosen in (_sampled(inputs), points) if len(points) > 2 * SAMPLES else (points,):
        code = _plan(address, chosen, inputs, effort)
        if code is not None and code.at_all(points) == wanted:
            return code
    return None


def _sampled(inputs: Sequence[Input]) -> list[dict[str, int]]:
    """The origin, each single bit, each largest value, and pseudo-random points, always the same."""
    origin = {one.name: 0 for one in inputs}
    units = [origin | {one.name: 1 << bit} for one in inputs for bit in range((one.size - 1).bit_length())]
    state, random = 12345, [{one.name: one.size - 1 for one in inputs}]
    for _ in range(SAMPLES):
        point = {}
        for one in inputs:
            state = (state * 1103515245 + 12345) % (1 << 31)
            point[one.name] = (state >> 8) % one.size
        random.append(point)
    return [origin, *units, *random]


def _plan(address: _At, points: Sequence[_Point], inputs: Sequence[Input], effort: int) -> AddressCode | None:
    if not any(map(address, points)):
        return AddressCode((), None, 0)
    space = Space([(one.name, one.scalar, [point[one.name] for point in points]) for one in inputs])
    found = _found(space, points, address, effort)
    if found is None:
        return None
    names: dict[tuple[int, bool], str] = {}
    ops: list[Op] = []
    for value in ops_of(found):
        names[value.key] = f"t{len(ops)}" if value.opcode else value.name
        if value.opcode:
            operands = tuple(part if isinstance(part, int) else names[part.key] for part in value.operands)
            ops.append(Op(value.opcode, names[value.key], operands))
    return AddressCode(tuple(ops), names[found.key], 0)


def _found(space: Space, points: Sequence[_Point], address: _At, effort: int) -> Computed | None:
    """The cheapest value found; inputs whose contributions only add up are planned one by one."""
    origin = dict.fromkeys(points[0], 0)

    def only(name: str) -> _At:
        known = functools.cache(lambda value: address(origin | {name: value}))
        return lambda point: known(point[name])

    alone = {value.name: only(value.name) for value in space.inputs}
    if any(sum(part(point) for part in alone.values()) != address(point) for point in points):
        return _Search(space, space.inputs, points, address).best(space.pack(list(map(address, points))), effort)
    total: Computed | None = None
    for value in space.inputs:
        wanted = list(map(alone[value.name], points))
        if any(wanted):
            part = _Search(space, [value], points, alone[value.name]).best(space.pack(wanted), effort)
            if part is None:
                return None
            total = part if total is None else fused(space, space.sum(total, part))
    return total


class _Search:
    """All that two operations make of some inputs, and how targets are joined from it."""

    def __init__(self, space: Space, inputs: Sequence[Computed], points: Sequence[_Point], address: _At) -> None:
        self.space = space
        self.hints = Hints.of(points, address)
        self.known: dict[int, Computed] = {value.bits: value for value in inputs}
        self.levels: list[list[Computed]] = [list(inputs)]
        self.target = space.pack(list(map(address, points)))
        self.fields = [space.pack([address({**dict.fromkeys(point, 0), name: point[name] & mask}) for point in points])
                       for name, masks in self.hints.runs.items() for mask in masks]
        self.summed = sum(self.fields) == self.target
        self.parts: list[tuple[int, int]] = self._parts(points, address)
        self.planned: dict[tuple[int, int], Computed | None] = {}

    def _parts(self, points: Sequence[_Point], address: _At) -> list[tuple[int, int]]:
        """Ways to cut the address in two, whose sum or XOR it is: by bits of the result, and by bits of an input."""
        space, cuts, target = self.space, [], self.target
        for mask in self.hints.unions(self.hints.result_fields):
            one = space.masked(target, mask)
            cuts.append((one, target - one))
        for name, masks in self.hints.input_fields.items():
            for mask in self.hints.unions(masks):
                one, other = (space.pack([address({**point, name: point[name] & kept}) for point in points]) for kept in (mask, ~mask))
                if target in (one + other, one ^ other):
                    cuts.append((one, other))
        return [(one, rest) for one, rest in dict.fromkeys(cuts) if one and rest]

    def _grow(self) -> None:
        """One level more: one operation on the last level, with an input as the second operand where it has two."""
        made: list[Computed] = []
        for value in self.levels[-1]:
            hints = self.hints
            for new in self.space.made_from(value, self.levels[0], hints.shifts, hints.masks, hints.fields, hints.strides, self.known):
                self.known[new.bits] = new
                made.append(new)
        self.levels.append(made)

    def best(self, target: int, effort: int) -> Computed | None:
        """The cheapest value found for a target, None where none was."""
        key = target, effort
        if key not in self.planned:
            self.planned[key] = None  # a part that needs itself
            self.planned[key] = self._best(target, effort)
        return self.planned[key]

    def _best(self, target: int, effort: int) -> Computed | None:
        best = self._field_by_field() if effort and target == self.target else None
        for level in range(3):
            if level == len(self.levels):
                self._grow()
            if target in self.known:
                return self.known[target]
            for found in self._masked(target, level) + (self._joined(target, level) if effort or level < 2 else []):
                if best is None or found.cost < best.cost:
                    best = found
            if best is not None and best.cost <= level + 2:
                return best  # all that costs less has been seen
        return self._cut(target, effort, best) if effort else best

    def _joined(self, target: int, level: int) -> list[Computed]:
        """The target as one operation on two known values of which one is of this level, or the fusion of two."""
        space, known, found, minus = self.space, self.known, [], self.space.minus
        lefts = [shift for shift in self.hints.shifts if shift > 0]
        factor = space.factor(target)
        low = target >> factor
        if factor and low in known:
            found.append(space.shifted(known[low], factor))
        for value in self.levels[level]:
            bits = value.bits
            other = known.get(target ^ bits)
            if other is not None:
                found.append(space.both("xor", value, other))
            rest = minus(target, bits)
            if rest in known:
                found.append(fused(space, space.sum(value, known[rest])))
            for shift in lefts:
                rest = minus(target, bits << shift)
                if rest is None:
                    break
                if rest in known:
                    found.append(fused(space, space.sum(space.shifted(value, shift), known[rest])))
            if factor:
                rest = minus(low, bits)
                if rest in known:
                    found.append(fused(space, space.shifted(space.sum(value, known[rest]), factor)))
        return found

    def _masked(self, target: int, level: int) -> list[Computed]:
        """The target as a known value of this level with bits cleared."""
        return [self.space.cut(value, mask) for value in self.levels[level] if target & value.bits == target
                for mask in self.hints.masks if self.space.masked(value.bits, mask) == target]

    def _field_by_field(self) -> Computed | None:
        """The whole address as sum or XOR of what each field of each input gives: long, but always found for a layout."""
        space = self.space
        total: Computed | None = None
        for part in self.fields:
            value = self.best(part, 0)
            if value is None:
                return None
            if total is None:
                total = value
            elif self.summed:
                total = fused(space, space.sum(total, value))
            else:
                total = space.both("xor", total, value)
        return total if total is not None and total.bits == self.target else None

    def _cut(self, target: int, effort: int, best: Computed | None) -> Computed | None:
        """The target as sum or XOR of two parts, each planned alone; the first may be shifted by the instruction that adds."""
        space = self.space
        for one, rest in self._cuts(target):
            second = self.best(rest, effort - 1)
            if second is None or best is not None and second.cost + 1 > best.cost:
                continue
            for shift in {0, space.factor(one)}:
                first = self.best(one >> shift, effort - 1)
                if first is None:
                    continue
                moved = space.shifted(first, shift) if shift else first
                found = fused(space, space.sum(moved, second)) if one + rest == target else space.both("xor", moved, second)
                if best is None or found.cost < best.cost:
                    best = found
        return best

    def _cuts(self, target: int) -> list[tuple[int, int]]:
        """The cuts of the whole address, applied to a target that may be one of its parts."""
        cuts = []
        for part in {part for pair in self.parts for part in pair} - {target}:
            rest = self.space.minus(target, part)
            cuts += [(part, other) for other in (rest, target ^ part) if other]
        return [pair for cut in dict.fromkeys(cuts) for pair in (cut, cut[::-1])]


@dataclass(frozen=True)
class Hints:
    """Constants that the address suggests: shifts (left positive), masks, fields (offset, width) of inputs, strides."""

    shifts: tuple[int, ...]
    masks: tuple[int, ...]
    fields: tuple[tuple[int, int], ...]
    strides: tuple[int, ...]
    result_fields: tuple[int, ...]
    input_fields: Mapping[str, tuple[int, ...]]
    runs: Mapping[str, Sequence[int]]

    @staticmethod
    def of(points: Sequence[_Point], address: _At) -> Hints:
        """From the address at single bits of the inputs."""
        classes: dict[tuple[str, int], int] = {}
        strides: set[int] = set()
        runs: dict[str, list[int]] = {}
        origin = dict.fromkeys(points[0], 0)
        for name in origin:
            top = max(point[name] for point in points).bit_length()
            images = [address(origin | {name: 1 << bit}) for bit in range(top)]
            runs[name] = _runs(images)
            for bit, image in enumerate(images):
                if image & (image - 1):
                    strides |= {image, image >> bit, image // (image & -image)}
                for position in range(image.bit_length()):
                    if image >> position & 1:
                        classes[name, position - bit] = classes.get((name, position - bit), 0) | 1 << bit
        strides |= _differences(runs, address, origin)
        moved = [(mask << shift if shift >= 0 else mask >> -shift) for (_, shift), mask in classes.items()]
        shifts = {shift for _, shift in classes} | {a - b for _, a in classes for _, b in classes}
        fields = {(run & -run, run) for masks in runs.values() for run in masks} | {(mask & -mask, mask) for mask in classes.values()}
        widths = {(low.bit_length() - 1, (mask // low).bit_length()) for low, mask in fields}
        results = _merged(moved)
        masks = {*moved, *classes.values(), *results, *(run for found in runs.values() for run in found)}
        # One multiplication makes several shifted copies, of which one mask keeps the right bits: (lane * 129) & 0x7b0.
        for name in origin:
            multiples = [shift for own, shift in classes if own == name and shift >= 0][:4]
            for count in range(2, len(multiples) + 1):
                for some in itertools.combinations(multiples, count):
                    strides.add(sum(1 << shift for shift in some))
                    masks.add(_or([classes[name, shift] << shift for shift in some]))
        masks |= {mask >> (mask & -mask).bit_length() - 1 for mask in masks} | {a | b for a in moved for b in moved}
        inputs = {name: tuple(dict.fromkeys([*runs[name], *(mask for (own, _), mask in classes.items() if own == name)]))
                  for name in origin}
        down = {-offset for offset, _ in widths if offset}
        return Hints(tuple(sorted(s for s in shifts | down if s)), tuple(sorted(m for m in masks if m)), tuple(sorted(widths)),
                     tuple(sorted(strides)), tuple(results), inputs, runs)

    @staticmethod
    def unions(masks: Sequence[int]) -> list[int]:
        """Masks of all proper subsets, at most those of six masks."""
        chosen = masks[:6]
        return sorted({sum_ for count in range(1, len(chosen)) for some in itertools.combinations(chosen, count)
                       if (sum_ := _or(some))})


def _differences(runs: Mapping[str, Sequence[int]], address: _At, origin: _Point) -> set[int]:
    """What is left of one field's step when the step of the field below goes on through it: lane * 2 + (lane >> 4) * (2048 - 32)."""
    found = set()
    for name, masks in runs.items():
        for below, above in itertools.pairwise(masks):
            low, high = below & -below, above & -above
            step = address({**origin, name: high}) - address({**origin, name: low}) // low * high
            if step > 0:
                found.add(step)
    return found


def _or(masks: Sequence[int]) -> int:
    result = 0
    for mask in masks:
        result |= mask
    return result


def _runs(images: Sequence[int]) -> list[int]:
    """Masks of neighbouring bits whose images double: a field that one shift or multiplication places."""
    runs: list[int] = []
    for bit, image in enumerate(images):
        if not image:
            continue
        if runs and runs[-1] >> bit - 1 & 1 and image == 2 * images[bit - 1]:
            runs[-1] |= 1 << bit
        else:
            runs.append(1 << bit)
    return runs


def _merged(masks: Sequence[int]) -> list[int]:
    """Masks that overlap become one."""
    merged: list[int] = []
    for mask in masks:
        for other in [other for other in merged if other & mask]:
            merged.remove(other)
            mask |= other
        merged.append(mask)
    return merged
