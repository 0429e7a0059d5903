"""Linear layouts with counts: which element stands where, as an algebra ("Linear Layouts", Zhou et al., arXiv 2505.23819).

A layout maps named input dimensions (item, lane, wave, or row, column) to named output dimensions (row, column, block, or offset).
An input is a number in mixed radix, least significant digit first. A digit of size 2 is a bit: it has a vector of output bits, and the
vectors of all set bits are combined by XOR. A digit of any size may instead add a multiple of its value: that is how sizes that
are no power of two enter (192 columns are 6 bits and a count of 3) and how a row of 384 bytes does. In each output the XORed bits
lie below everything that is added, so nothing carries into them; a map for which that does not hold is refused.

Layouts are built from `identity` and `zeros` with `*`: in `a * b`, b counts whole copies of a, in inputs and outputs alike.
`a * b` with the names of one instruction's lanes and items is how the ISA's figures are stated in `layouts_mfma`.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Iterator, Mapping, Sequence

from asmgen.isa import gf2
from asmgen.isa.errors import AsmgenError
from asmgen.isa.records import dataclass

Image = tuple[int, ...]
"""One number for each output, in the layout's order."""


class LayoutError(AsmgenError):
    """Layouts do not fit each other, or what was asked of one has no answer."""


@dataclass(frozen=True)
class Digit:
    """A digit of an input: its values 0 to size - 1; value d XORs `xor` (where d is 1) and adds d * `add` to the outputs."""

    size: int
    xor: Image
    add: Image


@dataclass(frozen=True)
class Layout:
    """A linear map with counts. `inputs` are names with digits, least significant first; `outputs` names with sizes.

    Build one with `identity`, `zeros`, `from_bits` and `*`, which bring digits into a canonical form: sizes are 2 or odd, and what
    can be XORed is XORed, from the lowest output bit up.
    """

    inputs: tuple[tuple[str, tuple[Digit, ...]], ...]
    outputs: tuple[tuple[str, int], ...]

    @functools.cached_property
    def input_sizes(self) -> dict[str, int]:
        """Size of each input."""
        return {name: _size(digits) for name, digits in self.inputs}

    @functools.cached_property
    def output_sizes(self) -> dict[str, int]:
        """Size of each output; values beyond it do not occur."""
        return dict(self.outputs)

    def digits(self) -> Iterator[tuple[str, int, Digit]]:
        """All digits as (input, weight in it, digit)."""
        for name, digits in self.inputs:
            weight = 1
            for digit in digits:
                yield name, weight, digit
                weight *= digit.size

    def __call__(self, **values: int) -> dict[str, int]:
        """The outputs at given inputs; absent ones are 0. Raises LayoutError for an unknown input or a value outside its size."""
        unknown = set(values) - set(self.input_sizes)
        if unknown:
            raise LayoutError(f"the layout has no input {', '.join(sorted(unknown))}; its inputs are {', '.join(self.input_sizes)}")
        low, high = [0] * len(self.outputs), [0] * len(self.outputs)
        for name, digits in self.inputs:
            rest = values.get(name, 0)
            if not 0 <= rest < self.input_sizes[name]:
                raise LayoutError(f"{name} {rest} does not exist; it goes from 0 to {self.input_sizes[name] - 1}")
            for digit in digits:
                rest, value = divmod(rest, digit.size)
                if value:
                    low = [a ^ b for a, b in zip(low, digit.xor, strict=True)] if value == 1 else low
                    high = [a + value * b for a, b in zip(high, digit.add, strict=True)]
        return {name: a + b for (name, _), a, b in zip(self.outputs, low, high, strict=True)}

    def along(self, name: str) -> list[dict[str, int]]:
        """The outputs at each value of one input, in order, all others being 0."""
        names = list(self.output_sizes)
        found = _contributions(dict(self.inputs)[name], len(names))
        return [dict(zip(names, map(operator.add, xor, add), strict=True)) for xor, add in found]

    def points(self) -> Iterator[tuple[dict[str, int], dict[str, int]]]:
        """Every input with its output, the first input fastest."""
        names, outputs = list(self.input_sizes)[::-1], list(self.output_sizes)
        tables = [list(enumerate(_contributions(digits, len(outputs)))) for _, digits in reversed(self.inputs)]
        for chosen in itertools.product(*tables):
            point = {name: value for name, (value, _) in zip(names, chosen, strict=True)}
            low, high = [0] * len(outputs), [0] * len(outputs)
            for _, (xor, add) in chosen:
                low = [a ^ b for a, b in zip(low, xor, strict=True)]
                high = [a + b for a, b in zip(high, add, strict=True)]
            yield point, {name: a + b for name, a, b in zip(outputs, low, high, strict=True)}

    def __mul__(self, other: Layout) -> Layout:
        """The product: `other` counts copies of this one; sizes of inputs and outputs that both have multiply."""
        outputs = {name: self.output_sizes.get(name, 1) * other.output_sizes.get(name, 1)
                   for name in [*self.output_sizes, *other.output_sizes]}
        names = list(outputs)
        scale = {name: self.output_sizes.get(name, 1) for name in names}
        mine, its = dict(self.inputs), dict(_added(other, {name for name in scale if scale[name] & (scale[name] - 1)}).inputs)
        inputs = [(name, [_placed(digit, self.outputs, names, {}) for digit in mine.get(name, ())]
                   + [_placed(digit, other.outputs, names, scale) for digit in its.get(name, ())])
                  for name in dict.fromkeys([*mine, *its])]
        return _canonical(inputs, outputs)

    def then(self, outer: Layout) -> Layout:
        """Composition: what `outer` makes of this layout's outputs, which must be inputs of it; its other inputs are 0.

        Raises LayoutError where an addition of this layout would carry between digits of `outer`.
        """
        return _composed(self, outer)

    def inverse(self) -> Layout:
        """The layout from outputs to inputs. Of several inputs of one output the lowest is given (a right inverse, for broadcasts).

        Raises LayoutError where some output value has no input, or where digits add to an output so that they overlap.
        """
        return _inverse(self)

    def rank(self, *inputs: str) -> int:
        """Dimension over GF(2) of what the inputs (absent: all) reach. Raises LayoutError for a layout that adds."""
        chosen = [digit for name, _, digit in self.digits() if not inputs or name in inputs]
        if any(any(digit.add) for digit in chosen):
            raise LayoutError("a layout with counts has no rank over GF(2); enumerate its points instead")
        return gf2.rank(_joined(digit.xor, self.outputs) for digit in chosen)

    def is_bijective(self) -> bool:
        """Whether each output value has exactly one input."""
        inputs, outputs = (functools.reduce(int.__mul__, sizes.values(), 1) for sizes in (self.input_sizes, self.output_sizes))
        return inputs == outputs and len({tuple(output.values()) for _, output in self.points()}) == outputs

    def renamed(self, **names: str) -> Layout:
        """The same map under other names of inputs and outputs."""
        return Layout(tuple((names.get(name, name), digits) for name, digits in self.inputs),
                      tuple((names.get(name, name), size) for name, size in self.outputs))

    def only(self, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None) -> Layout:
        """The layout of some inputs (the others at 0) and of some outputs, in the order given here."""
        names = list(self.output_sizes) if outputs is None else list(outputs)
        mine = dict(self.inputs)
        chosen = [(name, [_placed(digit, self.outputs, names, {}) for digit in mine[name]]) for name in inputs or mine]
        return _canonical(chosen, {name: self.output_sizes[name] for name in names})

    def same_map(self, other: Layout) -> bool:
        """Whether both give equal outputs of equal sizes at all inputs, however their digits are cut."""
        if self.input_sizes != other.input_sizes or self.output_sizes != other.output_sizes:
            return False
        a = self.only(sorted(self.input_sizes), sorted(self.output_sizes))
        b = other.only(sorted(self.input_sizes), sorted(self.output_sizes))
        return a == b or all(b(**point) == output for point, output in a.points())


def identity(input_: str, output: str, size: int) -> Layout:
    """output = input, 0 to size - 1. Raises LayoutError for a size below 1."""
    return strided(input_, size, output, 1)


def strided(input_: str, size: int, output: str, stride: int, total: int | None = None) -> Layout:
    """output = input * stride; `total` is the output's size, absent: size * stride, so that a copy follows without a gap."""
    if size < 1 or stride < 1:
        raise LayoutError(f"{input_} of size {size} at a stride of {stride} in {output}: both are at least 1")
    return _canonical([(input_, [Digit(size, (0,), (stride,))])], {output: size * stride if total is None else total})


def zeros(input_: str, size: int) -> Layout:
    """An input that reaches no output: as a factor, a broadcast."""
    return _canonical([(input_, [Digit(size, (), ())])], {})


def from_bits(inputs: Mapping[str, Sequence[Mapping[str, int]]], outputs: Mapping[str, int]) -> Layout:
    """A layout of bits only: for each input, from its lowest bit, the vector {output: bits} of each; and the outputs' sizes."""
    made = [(name, [Digit(2, tuple(bit.get(output, 0) for output in outputs), (0,) * len(outputs)) for bit in bits])
            for name, bits in inputs.items()]
    return _canonical(made, dict(outputs))


def product(*factors: Layout) -> Layout:
    """The product of all factors, the first one innermost."""
    return functools.reduce(Layout.__mul__, factors)


def quotient(whole: Layout, part: Layout) -> Layout:
    """The layout q with part * q equal to `whole`: how copies of a base tile are arranged. Raises LayoutError where there is none."""
    def refuse(why: str) -> LayoutError:
        return LayoutError(f"the layout is no arrangement of copies of the other one: {why}")

    sizes = {}
    for name, size in whole.outputs:
        sizes[name], rest = divmod(size, part.output_sizes.get(name, 1))
        if rest:
            raise refuse(f"{size} of {name} are no multiple of {part.output_sizes[name]}")
    inputs = []
    for name, digits in whole.inputs:
        inner, rest_digits = part.input_sizes.get(name, 1), list(digits)
        while inner > 1 and rest_digits and inner % rest_digits[0].size == 0:
            inner //= rest_digits.pop(0).size
        if inner > 1:
            raise refuse(f"its {name} does not begin with {part.input_sizes[name]} values of the other's")
        scale = [part.output_sizes.get(output, 1) for output, _ in whole.outputs]
        if any(a % s or x % s for digit in rest_digits for a, x, s in zip(digit.add, digit.xor, scale, strict=True)):
            raise refuse(f"a step of {name} between copies is no multiple of the other's size")
        inputs.append((name, [Digit(d.size, tuple(x // s for x, s in zip(d.xor, scale, strict=True)),
                                    tuple(a // s for a, s in zip(d.add, scale, strict=True))) for d in rest_digits]))
    found = _canonical([(name, digits) for name, digits in inputs if digits or name not in part.input_sizes], sizes)
    if not (part * found).same_map(whole):
        raise refuse("within a copy it differs")
    return found


def renaming(a: Layout, b: Layout, item: str = "item", together: int = 1) -> tuple[int, ...] | None:
    """For each group of `together` items of b, the group of a that holds the same elements in every lane and wave; None if there is none.

    Then a conversion from a to b costs nothing: registers get other names. `together` is the number of items in a register.
    Raises LayoutError where the inputs differ in names or sizes.
    """
    if a.input_sizes != b.input_sizes:
        raise LayoutError(f"layouts of inputs {a.input_sizes} and {b.input_sizes} cannot be compared item by item")
    others = [name for name in a.input_sizes if name != item]
    names = list(a.output_sizes)
    if sorted(names) != sorted(b.output_sizes):
        return None
    a, b = a.only([item, *others], names), b.only([item, *others], names)
    held = {tuple(a(**{item: number}).values()): number for number in range(a.input_sizes[item])}
    source = [held.get(tuple(b(**{item: number}).values())) for number in range(b.input_sizes[item])]
    groups = []
    for first in range(0, len(source), together):
        begin = source[first]
        if begin is None or begin % together or source[first:first + together] != list(range(begin, begin + together)):
            return None
        groups.append(begin // together)
    ranges = [range(a.input_sizes[name]) for name in others]
    for values in itertools.product(*ranges):
        location = dict(zip(others, values, strict=True))
        if any(a(**location, **{item: old}) != b(**location, **{item: new}) for new, old in enumerate(source) if old is not None):
            return None
    return tuple(groups)


def reach(a: Layout, b: Layout, order: Sequence[str] = ("item", "lane", "wave")) -> str:
    """How far data moves from layout a to b: the last name of `order` in which an element's place differs, order[0] at least.

    "item" means within a lane, "lane" within a wave (permlane, DPP), "wave" between waves (LDS). Where a holds an element
    more than once, the copy with the lowest inputs counts. Raises LayoutError where a does not hold all that b holds.
    """
    moved = b.then(a.inverse())
    for name in reversed(order[1:]):
        size = moved.output_sizes.get(name, 1)
        if size > 1 or moved.input_sizes.get(name, 1) > 1:
            straight = all(output[name] == point.get(name, 0) for point, output in moved.points())
            if not straight:
                return name
    return order[0]


def _contributions(digits: Sequence[Digit], outputs: int) -> list[tuple[Image, Image]]:
    """What each value of an input XORs and what it adds."""
    made: list[tuple[Image, Image]] = [((0,) * outputs, (0,) * outputs)]
    for digit in digits:
        made = [(tuple(a ^ b for a, b in zip(xor, digit.xor, strict=True)) if value == 1 else xor,
                 tuple(a + value * b for a, b in zip(add, digit.add, strict=True)))
                for value in range(digit.size) for xor, add in made]
    return made


def _size(digits: Sequence[Digit]) -> int:
    return functools.reduce(int.__mul__, (digit.size for digit in digits), 1)


def _placed(digit: Digit, outputs: Sequence[tuple[str, int]], names: Sequence[str], scale: Mapping[str, int]) -> Digit:
    """The digit over other outputs, its images multiplied by `scale`."""
    xor, add = ({name: value for (name, _), value in zip(outputs, image, strict=True)} for image in (digit.xor, digit.add))
    return Digit(digit.size, tuple(xor.get(name, 0) * scale.get(name, 1) for name in names),
                 tuple(add.get(name, 0) * scale.get(name, 1) for name in names))


def _added(layout: Layout, outputs: set[str]) -> Layout:
    """The same map with addition instead of XOR in some outputs, as it needs to be before a factor that is no power of two."""
    columns = []
    for location, (name, _) in enumerate(layout.outputs):
        pairs = [(digit.xor[location], digit.add[location]) for _, _, digit in layout.digits()]
        if name in outputs:
            if sum(xor for xor, _ in pairs) != functools.reduce(int.__xor__, (xor for xor, _ in pairs), 0):
                raise LayoutError(f"bits of {name} are XORs of several inputs: they cannot count copies of a size that is no power of two")
            pairs = [(0, xor + add) for xor, add in pairs]
        columns.append(pairs)
    made = iter([Digit(digit.size, tuple(column[location][0] for column in columns), tuple(column[location][1] for column in columns))
                 for location, (_, _, digit) in enumerate(layout.digits())])
    return Layout(tuple((name, tuple(next(made) for _ in digits)) for name, digits in layout.inputs), layout.outputs)


def _joined(image: Image, outputs: Sequence[tuple[str, int]]) -> int:
    """All outputs' bits in one vector."""
    vector, location = 0, 0
    for value, (_, size) in zip(image, outputs, strict=True):
        vector |= value << location
        location += max(size - 1, value).bit_length()
    return vector


def _canonical(inputs: Sequence[tuple[str, Sequence[Digit]]], outputs: Mapping[str, int]) -> Layout:
    """Digits split into bits and odd counts, what can be XORed XORed. Raises LayoutError where additions reach XORed bits."""
    cut = [(name, [part for digit in digits for part in _split(digit)]) for name, digits in inputs]
    flat = [digit for _, digits in cut for digit in digits]
    columns = [_settled([(d.size, d.xor[n], d.add[n]) for d in flat], name) for n, name in enumerate(outputs)]
    settled = iter([Digit(d.size, tuple(column[location][0] for column in columns), tuple(column[location][1] for column in columns))
                    for location, d in enumerate(flat)])
    made = tuple((name, tuple(next(settled) for _ in digits)) for name, digits in cut)
    return Layout(made, tuple(outputs.items()))


def _split(digit: Digit) -> list[Digit]:
    size, add, parts = digit.size, digit.add, []
    while size > 2 and size % 2 == 0:
        parts.append(Digit(2, tuple(0 for _ in add), add))
        size, add = size // 2, tuple(2 * value for value in add)
    return [*parts, Digit(size, digit.xor, add)] if size > 1 else parts


def _settled(digits: Sequence[tuple[int, int, int]], output: str) -> list[tuple[int, int]]:
    """(xor, add) of each digit (size, xor, add) in one output, in canonical form."""
    shared = once = 0
    for _, xor, _ in digits:
        shared, once = shared | once & xor, once | xor
    # An XOR at or above the lowest bit that is added to is an addition, where no other digit XORs that bit.
    low = min((add & -add for _, _, add in digits if add), default=1 << once.bit_length())
    xors = [xor & (low - 1) for _, xor, _ in digits]
    adds = [add + xor - (xor & (low - 1)) for _, xor, add in digits]
    if shared >= low:
        raise LayoutError(f"additions carry into bits of {output} that are XORed (from {low} on)")
    while any(adds):
        odd = [location for location, add in enumerate(adds) if add & (2 * low - 1)]
        if len(odd) == 1 and digits[odd[0]][0] == 2 and adds[odd[0]] == low:
            xors[odd[0]], adds[odd[0]] = xors[odd[0]] | low, 0
        elif odd:
            break
        low *= 2
    return list(zip(xors, adds, strict=True))


def _composed(inner: Layout, outer: Layout) -> Layout:
    steps: dict[str, list[tuple[int, Digit]]] = {name: [] for name, _ in inner.outputs}
    for name, weight, digit in outer.digits():
        steps.setdefault(name, []).append((weight, digit))
    for name, size in inner.outputs:
        if size > outer.input_sizes.get(name, 0):
            raise LayoutError(f"{name} goes up to {size - 1} in one layout, but the next one takes "
                              + (f"{outer.input_sizes[name]} values" if name in outer.input_sizes else "no such input"))
    used: dict[tuple[str, int], int] = {}
    shared: list[int] = []
    for location in range(len(inner.outputs)):
        once = twice = 0
        for _, _, digit in inner.digits():
            once, twice = once | digit.xor[location], twice | once & digit.xor[location]
        shared.append(twice)
    made = [(name, [_through(digit, inner.outputs, shared, steps, len(outer.outputs), used) for digit in digits])
            for name, digits in inner.inputs]
    for name, weight, outer_digit in outer.digits():
        if used.get((name, weight), 0) >= outer_digit.size:
            raise LayoutError(f"the values of {name} carry across {weight * outer_digit.size}, where the next layout changes its step")
    return _canonical(made, outer.output_sizes)


def _through(digit: Digit, middles: Sequence[tuple[str, int]], shared: Sequence[int], steps: Mapping[str, list[tuple[int, Digit]]],
             outputs: int, used: dict[tuple[str, int], int]) -> Digit:
    """One digit of the inner layout as a digit of the composition; `used` collects the largest value of each outer digit."""
    xor, add = [0] * outputs, [0] * outputs
    for location, (name, _) in enumerate(middles):
        mixed = digit.xor[location] & shared[location]
        amount = digit.add[location] + (digit.xor[location] & ~shared[location])
        for weight, step in reversed(steps[name]):
            taken, amount = divmod(amount, weight)
            both = bool(mixed & weight) and weight & (weight - 1) == 0
            if both:
                mixed ^= weight
                used[name, weight] = max(used.get((name, weight), 0), 1)
                if step.size != 2 or any(step.add):
                    raise LayoutError(f"bit {weight} of {name} is an XOR of several inputs, but the next layout adds for it")
                xor = [a ^ b for a, b in zip(xor, step.xor, strict=True)]
            if taken:
                used[name, weight] = used.get((name, weight), 0) + taken * (digit.size - 1)
                add = [a + taken * b for a, b in zip(add, step.add, strict=True)]
                xor = [a ^ b for a, b in zip(xor, step.xor, strict=True)]
        if mixed:
            raise LayoutError(f"bits {mixed:#x} of {name} are XORs of several inputs, but the next layout has no bits there")
    return Digit(digit.size, tuple(xor), tuple(add))


def _inverse(layout: Layout) -> Layout:
    digits = list(layout.digits())
    plain = [(name, weight, digit) for name, weight, digit in digits if not any(digit.add)]
    solver = gf2.Solver([_joined(digit.xor, layout.outputs) for _, _, digit in plain])
    sizes = layout.input_sizes
    taken: dict[tuple[str, int], int] = {}

    def image(vector: int, extra: tuple[str, int] | None, size: int, what: str) -> Digit:
        solution = solver.solve(vector)
        if solution is None:
            raise LayoutError(f"no input reaches {what}: the layout has no inverse")
        xor, add = dict.fromkeys(sizes, 0), dict.fromkeys(sizes, 0)
        for number in gf2.bits(solution):
            name, weight, _ = plain[number]
            power = weight & (weight - 1) == 0
            taken[name, weight] = taken.get((name, weight), 0) + 1
            if not power and taken[name, weight] > 1:
                raise LayoutError(f"{name} has a bit of weight {weight}, which would have to be XORed")
            (xor if power else add)[name] += weight
        if extra is not None:
            add[extra[0]] += extra[1]
        return Digit(size, tuple(xor.values()), tuple(add.values()))

    inputs = []
    for location, (output, size) in enumerate(layout.outputs):
        adders = sorted(((digit.add[location], name, weight, digit) for name, weight, digit in digits if digit.add[location]),
                        key=lambda adder: adder[0])
        unit = adders[0][0] if adders else size
        if unit & (unit - 1):
            raise LayoutError(f"{output} has {unit} values below its first count, no power of two: some have no input")
        vectors = [tuple(unit_bit if n == location else 0 for n in range(len(layout.outputs))) for unit_bit in _powers(unit)]
        made = [image(_joined(vector, layout.outputs), None, 2, f"bit {bit} of {output}") for bit, vector in enumerate(vectors)]
        for stride, name, weight, digit in adders:
            if stride != unit or sum(map(bool, digit.add)) > 1:
                raise LayoutError(f"the counts of {output} overlap, leave holes or reach a second output: no inverse")
            made.append(image(_joined(digit.xor, layout.outputs), (name, weight), digit.size, f"what is XORed at {stride} of {output}"))
            unit *= digit.size
        if unit != size:
            raise LayoutError(f"{output} has {size} values, of which inputs reach {unit}: the layout has no inverse")
        inputs.append((output, made))
    return _canonical(inputs, sizes)


def _powers(end: int) -> list[int]:
    return [1 << bit for bit in range(end.bit_length() - 1)]
