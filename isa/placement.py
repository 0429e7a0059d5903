"""The affine steps after a linear layout: packing of items into registers, XOR swizzles, pads and bases of LDS tiles.

A `Placement` says at which byte of LDS an element of a tile lies: its coordinates give a dense offset (a layout), the swizzle XORs
bits of that offset, pads stretch it, and a base is added for each stage, wave or subtile. A base that is no multiple
of the pattern's period would move the pattern itself, so it is refused.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping

from asmgen.isa.layout import Layout, LayoutError, from_bits, identity
from asmgen.isa.records import dataclass

REGISTER_BITS = 32


@dataclass(frozen=True)
class Packing:
    """Items of `bits` bits one after another in a lane's registers (or memory), from bit `start` on: bit = start + item * bits."""

    bits: int
    start: int = 0

    def place(self, item: int) -> tuple[int, int]:
        """(register, bit 0 to 31) of the item's lowest bit; the item may go on in the next registers."""
        return divmod(self.start + item * self.bits, REGISTER_BITS)

    def item(self, register: int, bit: int = 0) -> int:
        """The item that holds the bit of the register. Raises LayoutError for a bit below `start`."""
        offset = register * REGISTER_BITS + bit - self.start
        if offset < 0:
            raise LayoutError(f"bit {bit} of register {register} lies before the first item, which begins at bit {self.start}")
        return offset // self.bits

    def registers(self, items: int) -> int:
        """Registers that so many items take."""
        return -(-(self.start + items * self.bits) // REGISTER_BITS)

    @property
    def together(self) -> int:
        """Items that share registers: those of one register, or of the three that hold whole 6-bit items; 1 from 32 bits on."""
        return math.lcm(self.bits, REGISTER_BITS) // self.bits


@dataclass(frozen=True)
class Swizzle:
    """An XOR pattern on byte offsets: offset ^= ((offset >> shift) & mask) for each term, all of the original offset.

    A positive shift moves higher bits (the row) down onto lower ones (the chunk). Raises LayoutError for terms that read bits they change:
    then the pattern were no permutation that undoes itself.
    """

    terms: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        changed, read = 0, 0
        for shift, mask in self.terms:
            if shift < 1 or mask < 1:
                raise LayoutError(f"a swizzle's term needs a positive shift and mask, not {shift} and {mask:#x}")
            changed, read = changed | mask, read | mask << shift
        if changed & read:
            raise LayoutError(f"the swizzle changes bits {changed & read:#x} that it also reads")

    def __call__(self, offset: int) -> int:
        """The swizzled offset; applied twice it gives the offset back."""
        swizzled = offset
        for shift, mask in self.terms:
            swizzled ^= offset >> shift & mask
        return swizzled

    def all(self, offsets: list[int]) -> list[int]:
        """The same of each offset."""
        swizzled = offsets
        for shift, mask in self.terms:
            swizzled = [after ^ (offset >> shift & mask) for after, offset in zip(swizzled, offsets, strict=True)]
        return swizzled

    @property
    def period(self) -> int:
        """Offsets that are multiples of it pass the swizzle as they are, and may be added before or after it."""
        return 1 << max(((mask << shift).bit_length() for shift, mask in self.terms), default=0)

    def layout(self, size: int, name: str = "offset") -> Layout:
        """The swizzle of `size` bytes, a multiple of the period, as a layout from `name` to `name`.

        Raises LayoutError for another size.
        """
        count, rest = divmod(size, self.period)
        if rest:
            raise LayoutError(f"{size} bytes are no multiple of the swizzle's period of {self.period}")
        bits = from_bits({name: [{name: self(1 << bit)} for bit in range(self.period.bit_length() - 1)]}, {name: self.period})
        return bits * identity(name, name, count)

    @property
    def granule(self) -> int:
        """Bytes that stay together: an access that is wider, or not aligned to its width, may be torn. 0 without terms."""
        return min((mask & -mask for _, mask in self.terms), default=0)

    @property
    def reach(self) -> int:
        """A tile of a multiple of so many bytes is mapped onto itself."""
        return 1 << max((mask.bit_length() for _, mask in self.terms), default=0)


@dataclass(frozen=True)
class Pads:
    """Bytes left free between pieces of a tile: after each `every` dense bytes `add` bytes, for each (every, add)."""

    pads: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        for every, add in self.pads:
            if every < 1 or add < 0:
                raise LayoutError(f"a pad of {add} bytes after each {every} bytes means nothing")

    def __call__(self, offset: int) -> int:
        """The padded offset of a dense one."""
        padded = offset
        for every, add in self.pads:
            padded += offset // every * add
        return padded

    def all(self, offsets: list[int]) -> list[int]:
        """The same of each offset."""
        padded = offsets
        for every, add in self.pads:
            padded = [after + offset // every * add for after, offset in zip(padded, offsets, strict=True)]
        return padded

    @property
    def period(self) -> int:
        """Dense bytes after which all pads begin again."""
        return math.lcm(*(every for every, _ in self.pads))

    def size(self, dense: int) -> int:
        """Bytes that `dense` bytes take, without the pads after the last one."""
        return self(dense - 1) + 1 if dense else 0

    def dense(self, offset: int) -> int | None:
        """The dense offset of a padded one, None inside a pad."""
        low, high = 0, offset
        while low < high:  # the padded offset grows with the dense one
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self(middle) <= offset else (low, middle - 1)
        return low if self(low) == offset else None


@dataclass(frozen=True)
class Placement:
    """Element coordinates -> byte of LDS: dense offset, swizzle, pads, bases, in this order.

    `dense` maps coordinates to `offset`, in bytes (packed formats: of the byte that the element begins in). `bases` are (name, dense
    bytes between neighbours), for stages, subtiles and the like. Raises LayoutError for a base that is no multiple of the pattern's period.
    """

    dense: Layout
    swizzle: Swizzle = Swizzle()
    pads: Pads = Pads()
    bases: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        if tuple(self.dense.output_sizes) != ("offset",):
            raise LayoutError(f"a placement's dense layout gives an offset, not {', '.join(self.dense.output_sizes)}")
        size = self.dense.output_sizes["offset"]
        if size % self.swizzle.reach:
            raise LayoutError(f"the swizzle moves bytes within {self.swizzle.reach}, of which the tile's {size} are no multiple: "
                              "it would reach beyond the tile")
        for name, stride in self.bases:
            if stride % self.period:
                raise LayoutError(f"the base {name} of {stride} bytes is no multiple of the pattern's period of {self.period} bytes, so "
                                  f"the pattern would differ; the next multiple is {-(-stride // self.period) * self.period}")

    @property
    def period(self) -> int:
        """Dense bytes after which swizzle and pads repeat."""
        return math.lcm(self.swizzle.period, self.pads.period)

    @property
    def size(self) -> int:
        """Bytes of LDS that one stage takes, with the pads between its pieces."""
        return self.pads.size(self.dense.output_sizes["offset"])

    def address(self, coordinates: Mapping[str, int], **bases: int) -> int:
        """The byte of an element in the stage (or other base) number given. Raises LayoutError for an unknown base or coordinate."""
        strides = dict(self.bases)
        unknown = set(bases) - set(strides)
        if unknown:
            raise LayoutError(f"the placement has no base {', '.join(sorted(unknown))}; it has {', '.join(strides) or 'none'}")
        offset = self.pads(self.swizzle(self.dense(**coordinates)["offset"]))
        return offset + sum(count * self.pads(strides[name]) for name, count in bases.items())

    def coordinates(self, address: int) -> dict[str, int] | None:
        """The element that begins at the byte in stage 0, None in a pad or after the end."""
        dense = self.pads.dense(address)
        if dense is None or self.swizzle(dense) >= self.dense.output_sizes["offset"]:
            return None
        return self._bits(offset=self.swizzle(dense))

    @functools.cached_property
    def _bits(self) -> Layout:
        return self.dense.inverse()


def row_major(columns: int, rows: int, element_bits: int) -> Layout:
    """Dense rows: (byte of the element, column, row) -> offset in bytes. A gap between rows is a pad.

    Of elements that are no whole bytes (packed fp4, fp6) `column` counts the bytes of a row. Raises LayoutError where a row is no whole
    bytes.
    """
    size, rest = divmod(columns * element_bits, 8)
    if rest:
        raise LayoutError(f"{columns} columns of {element_bits} bits are no whole bytes")
    element = 1 if element_bits % 8 else element_bits // 8
    return identity("byte", "offset", element) * identity("column", "offset", size // element) * identity("row", "offset", rows)


def subtiled(rows: int, columns: int, element_bits: int, height: int, width: int) -> Layout:
    """Subtiles of `height` x `width` elements, each dense, those side by side first: (byte, column, row) -> offset in bytes.

    Raises LayoutError for elements that are no whole bytes, or rows and columns that are no whole subtiles.
    """
    if element_bits % 8 or rows % height or columns % width:
        raise LayoutError(f"{rows} x {columns} elements of {element_bits} bits are no whole bytes, or no whole subtiles of {height} x "
                          f"{width}")
    element = identity("byte", "offset", element_bits // 8)
    order = (identity("column", "column_inside", width) * identity("column", "across", columns // width)
             * identity("row", "row_inside", height) * identity("row", "down", rows // height))
    dense = (element * identity("column_inside", "offset", width) * identity("row_inside", "offset", height)
             * identity("across", "offset", columns // width) * identity("down", "offset", rows // height))
    return (order * identity("byte", "byte", element_bits // 8)).then(dense)
