"""Global views: matrices in memory with rows and strides, tiles of them with a buffer descriptor each, and steps along K.

    a = k.matrix("a", "bf16", "m", "k", "lda")
    upper, lower = a.rows(y, 256).halves()     # 128 rows each, bounds to the byte
    upper.k(t + 2)                             # its columns of iteration t + 2, for fill and load
    k.matrix("w", "f32", 4, "n", 0).rows(0, 4) # four times the same row; k.line("w", "f32", "n") is one

A view's base is a 64-bit address, so tensors may exceed 4 GiB; offsets inside of a tile of rows are 32 bits. Where the contract says how
far rows lie apart at most, rows that 32 bits may not reach are refused; `most_stride` is what the contract may allow.
"""

from __future__ import annotations

import math
from dataclasses import field

from asmgen.author.emit.kernel import Kept, KernelBuilder
from asmgen.author.step.iterations import StepIndex
from asmgen.author.tiles.tiles import TileError
from asmgen.isa.bufferformats import MOST_RECORDS, RAW_BUFFER
from asmgen.isa.layouts_mfma import element_bits
from asmgen.isa.records import dataclass
from asmgen.isa.registers import Reg


def most_stride(rows: int, bits: int, beside: int = 0) -> int:
    """How many elements of `bits` bits rows, none longer than that, may lie apart where one descriptor shows `rows` of them and `beside`
    bytes more: offsets and num_records are 32 bits."""
    return (MOST_RECORDS - beside) * 8 // (rows * bits)


@dataclass(eq=False)
class Rows:
    """`count` rows of a matrix from a row of its own on, with a descriptor for each slack, made when it is first used.

    Rows beyond the matrix read as 0 and are not written: the descriptor ends after the last byte of the last row. `first` is an SGPR, or a
    number. `near` says that code asks whether the rows fit one descriptor before it uses them.
    """

    matrix: Matrix
    first: Reg | int
    offset: int
    count: int
    descriptors: dict[int | Reg, Reg] = field(default_factory=dict)  # by slack
    positions: dict[int | Reg, int] = field(default_factory=dict)  # after so many items of code each was made
    near: bool = False

    def halves(self) -> tuple[Rows, Rows]:
        """The upper and the lower half of the rows."""
        upper, lower = self.parts(2)
        return upper, lower

    def parts(self, count: int) -> tuple[Rows, ...]:
        """Equal parts, a descriptor each. Raises TileError where the rows are no whole parts."""
        if self.count % count:
            raise TileError(f"{self.count} rows of {self.matrix.name} are no {count} equal parts")
        size = self.count // count
        return tuple(Rows(self.matrix, self.first, self.offset + number * size, size) for number in range(count))

    def k(self, index: StepIndex | int = 0) -> Slice:
        """The columns of an iteration: as many as what they are moved to has."""
        return Slice(self, index if isinstance(index, StepIndex) else None)

    def resource(self, k: KernelBuilder, slack: Reg | int = 0) -> Reg:
        """The descriptor. A tile of rows that begins after the matrix's last row shows that row instead: nothing of it is used.

        Its base lies `slack` bytes before the rows, so that offsets from which an immediate was taken off are not negative; in an SGPR
        it is 0 where the rows lie far apart. Raises TileError where the contract lets them lie so far apart that 32 bits do not reach the
        last one.
        """
        if slack not in self.descriptors or not k.passed(self.positions[slack]):
            self.check_reach(k, slack)
            self.descriptors[slack] = k.hoist(lambda: self._describe(k, slack))
            k.shows(self.descriptors[slack], k.argument(self.matrix.argument) if self.matrix.argument else self.matrix.pointer)
        return self.descriptors[slack]

    def shown_by(self, k: KernelBuilder, descriptor: Reg) -> None:
        """From here on the author's descriptor shows the rows: four SGPRs that the author sets and moves."""
        self.descriptors[0], self.positions[0] = descriptor, len(k.items)
        k.shows(descriptor, self.matrix.pointer)

    def fits(self, beside: int = 0) -> bool:
        """Whether a descriptor shows the rows and `beside` bytes at any stride of the contract; True where that says no largest one."""
        return self.matrix.most is None or self.reach is None or self.matrix.most <= most_stride(self.reach, self.matrix.bits, beside)

    def check_reach(self, k: KernelBuilder, slack: Reg | int, more: int = 0) -> None:
        """Raises TileError where they, the slack and `more` bytes do not fit, and code does not ask for it."""
        beside = more + (slack if isinstance(slack, int) else 0)
        if not self.near and not self.fits(beside):
            m = self.matrix
            assert m.most is not None and self.reach is not None
            raise TileError(f"{self.reach} rows of {m.name}, up to {m.most} elements apart, and {beside} bytes take "
                            f"{self.reach * m.most * m.bits // 8 + beside} bytes, and a descriptor shows {MOST_RECORDS}; at most "
                            f"{MOST_RECORDS * 8 // (m.most * m.bits)} rows, or a stride of at most "
                            f"{most_stride(self.reach, m.bits, beside)} in the contract, would do", k.here())

    @property
    def reach(self) -> int | None:
        """The most rows that the descriptor shows; None: all that the matrix has."""
        return self.count

    def _describe(self, k: KernelBuilder, slack: Reg | int) -> Reg:
        assert k.registers is not None
        m = self.matrix
        name = f"{m.name}_buffer{self.offset or ''}"
        stride: Reg | int = m.fixed if m.fixed is not None else m.stride_bytes(k)
        shape = (self.first, self.offset, self.reach, stride, m.rows_register, m.columns_register, m.bits, slack)
        key = "descriptor", *map(identity_of, shape)
        known = k.made.get(key)
        if isinstance(known, KnownRows) and known.holds(k, m.pointer, *shape):
            moved = known.moved(k, name, m.pointer)
            self.positions[slack] = len(k.items)
            return moved
        descriptor = k.registers.sgprs(4, k.registers.unused(name))
        self._show(k, descriptor, stride, slack)
        k.s_mov_b32(descriptor[3], RAW_BUFFER)
        self.positions[slack] = len(k.items)
        k.made[key] = KnownRows(descriptor, m.pointer, len(k.items))
        return descriptor

    def show_again(self, k: KernelBuilder, further: int = 0) -> None:
        """Each descriptor shows the rows from what `first` and the matrix's pointer are now. Its base lies `further` bytes more before
        them. Changes SCC."""
        m = self.matrix
        for slack, descriptor in self.descriptors.items():
            self._show(k, descriptor, m.fixed if m.fixed is not None else m.stride_bytes(k), slack)
            begin_before(k, descriptor, further)

    def _show(self, k: KernelBuilder, descriptor: Reg, stride: Reg | int, slack: Reg | int) -> None:
        """The base and the size in a descriptor."""
        m = self.matrix
        with k.scratch("first", file="s") as first, k.scratch("last", file="s") as last:
            self._extent(k, descriptor, stride, first, last)
            row: Reg | int = last
            if isinstance(m.columns_register, int):
                row = m.columns_register * m.bits // 8
            else:
                k.s_mul_i32(last, m.columns_register, m.bits // 8)
            if stride == 0 or self.reach == 1:
                k.s_mov_b32(descriptor[2], row)
            else:
                k.s_add_u32(descriptor[2], descriptor[2], row)
        begin_before(k, descriptor, slack)
        if m.empty:
            k.s_cmp_eq_u32(m.rows_register, 0)
            k.s_cselect_b32(descriptor[2], 0, descriptor[2])

    def _extent(self, k: KernelBuilder, descriptor: Reg, stride: Reg | int, first: Reg, last: Reg) -> None:
        """The address of the first row, and the bytes from it to the last one."""
        m, records = self.matrix, descriptor[2]
        if stride == 0 or self.first == self.offset == 0 and self.reach == 1:
            k.s_mov_b64(descriptor[0:1], m.pointer)
            return
        if isinstance(m.rows_register, int):
            k.s_mov_b32(last, m.rows_register - 1)
        else:
            k.s_sub_u32(last, m.rows_register, 1)
        if isinstance(self.first, int):
            k.s_min_u32(first, last, self.first + self.offset)
        else:
            if self.offset:
                k.s_add_u32(first, self.first, self.offset)
            k.s_min_u32(first, first if self.offset else self.first, last)
        if self.reach != 1:
            k.s_sub_u32(records, last, first)
            if self.reach is not None:
                k.s_min_u32(records, records, self.reach - 1)
            k.s_mul_i32(records, records, stride)
        k.s_mul_i32(descriptor[0], first, stride)
        k.s_mul_hi_u32(last, first, stride)
        k.s_add_u32(descriptor[0], m.pointer[0], descriptor[0])
        k.s_addc_u32(descriptor[1], m.pointer[1], last)


def begin_before(k: KernelBuilder, descriptor: Reg, bytes_: Reg | int) -> None:
    """A descriptor begins so many bytes earlier, and ends where it did."""
    if bytes_:
        k.s_sub_u32(descriptor[0], descriptor[0], bytes_)
        k.s_subb_u32(descriptor[1], descriptor[1], 0)
        k.s_add_u32(descriptor[2], descriptor[2], bytes_)


def identity_of(value: Reg | int | None) -> object:
    """What tells a register apart from another one that has its number at another time."""
    return (value, getattr(value, "lease", None)) if isinstance(value, Reg) else value


@dataclass(frozen=True)
class KnownRows:
    """A descriptor as it was made, after so many items of code: rows of another matrix of that shape and stride are a distance away."""

    descriptor: Reg
    pointer: Reg
    position: int

    def holds(self, k: KernelBuilder, *inputs: Reg | int | None) -> bool:
        """Whether neither it nor what it was made of has changed."""
        held = [self.descriptor, self.pointer, *(one for one in inputs if isinstance(one, Reg))]
        return k.holds_since(self.position, held, straight=True)

    def moved(self, k: KernelBuilder, name: str, pointer: Reg) -> Reg:
        """The same rows from another address on."""
        found = k.registers.sgprs(4, k.registers.unused(name))
        k.s_sub_u32(found[0], pointer[0], self.pointer[0])
        k.s_subb_u32(found[1], pointer[1], self.pointer[1])
        k.s_add_u32(found[0], found[0], self.descriptor[0])
        k.s_addc_u32(found[1], found[1], self.descriptor[1])
        k.s_mov_b64(found[2:3], self.descriptor[2:3])
        return found


@dataclass(eq=False)
class Walk(Rows):
    """Rows that go down by `count` with every iteration of a loop: `walk.step(t + 2)` are those of iteration t + 2, all their columns.

    One descriptor shows the matrix from `first` to its end, below 4 GiB; how far the rows have gone is a scalar offset of the walk's own.
    `beyond` are rows after the last one to which that offset may go by the contract, which keeps all of them below 4 GiB.
    """

    beyond: int | None = None

    ahead: int | None = None
    gone: Reg | None = None
    pace: Reg | None = None

    def step(self, index: StepIndex) -> Slice:
        """The rows of an iteration."""
        return Slice(self, index)

    @property
    def reach(self) -> int | None:
        """All rows to the matrix's end."""
        return None

    def offset_of(self, k: KernelBuilder, index: StepIndex) -> Reg:
        """The SGPR of the bytes gone. Raises TileError where one walk is asked for two iterations of a step, or for rows farther ahead
        than the contract has room for."""
        if self.beyond is not None and (index.offset + 1) * self.count > self.beyond:
            raise TileError(f"{self.matrix.name} is read {index.offset} iterations of {self.count} rows ahead, and the contract keeps "
                            f"{self.beyond} rows after the last one below 4 GiB; more of them there would do", k.here())
        if self.ahead not in (None, index.offset):
            raise TileError(f"{self.matrix.name} was read for t+{self.ahead} before: a walk serves one iteration ahead", k.here())
        self.ahead = index.offset
        if self.gone is None:
            self.gone = k.hoist(lambda: self._make(k))
        return self.gone

    def _make(self, k: KernelBuilder) -> Reg:
        assert k.registers is not None
        self.matrix.stride_bytes(k)
        self.pace = k.registers.sgprs(1, k.registers.unused(f"{self.matrix.name}_pace"), note="bytes an iteration")
        k.s_mul_i32(self.pace, self.matrix.stride_bytes(k), self.count)
        return k.registers.sgprs(1, k.registers.unused(f"{self.matrix.name}_gone"), note="bytes that the rows have gone down")

    def begin(self, k: KernelBuilder, ahead: int) -> None:
        """A loop begins whose first copy stands `ahead` iterations before the first: the offset that this copy would have."""
        assert self.gone is not None and self.pace is not None and self.ahead is not None
        k.s_mul_i32(self.gone, self.pace, self.ahead - ahead)

    @property
    def goes_over(self) -> bool:
        """Whether it can go over to the next item of a chain, by `show_next`."""
        return False

    def show_next(self, k: KernelBuilder, back: int, ended: Reg) -> None:
        """Its rows are `back` iterations before the first one of a chain's next item. Raises TileError where it has no next item."""
        raise TileError(f"{self.matrix.name} is walked down to its end: it has no next item", k.here())

    def go_on(self, k: KernelBuilder, step: int = 0, count_and_room: tuple[Reg, Reg] | None = None) -> None:
        """One iteration on. Changes SCC. With a count, not beyond its last iteration; `step` is the number of the next step."""
        assert self.gone is not None and self.pace is not None and self.ahead is not None
        pace = self.pace
        if count_and_room is not None and step + self.ahead > 0:
            count, pace = count_and_room
            k.s_cmp_gt_u32(count, step + self.ahead)
            k.s_cselect_b32(pace, self.pace, 0)
        k.s_add_u32(self.gone, self.gone, pace)


@dataclass(frozen=True)
class Slice:
    """Columns of rows: those of one iteration."""

    rows: Rows
    index: StepIndex | None

    def __str__(self) -> str:
        return f"{self.rows.matrix.name}.k({self.index})" if self.index is not None else self.rows.matrix.name


@dataclass(eq=False)
class Matrix:
    """rows x columns elements in memory, rows `stride` elements apart; sizes are SGPRs or numbers. With a stride of 0 all rows are one.

    The stride is `least` to `most` elements, as the contract says (None: it says nothing), and the columns are a multiple of `multiple`.
    One that may be `empty` has 0 rows at times, of which descriptors show nothing. Where code has computed the pointer, `argument` names
    the argument in whose memory it is.
    A matrix of 4 or 6 bits counts bytes here: `of` is its type, `dtype` i8 (`packed_matrix` makes one).
    """

    name: str
    dtype: str
    pointer: Reg
    rows_register: Reg | int
    columns_register: Reg | int
    stride: Reg | int
    least: int = 0
    most: int | None = None
    multiple: int = 1
    of: str = ""
    empty: bool = False
    argument: str = ""

    @property
    def bits(self) -> int:
        """Bits of an element."""
        return element_bits(self.dtype)

    @property
    def fixed(self) -> int | None:
        """The bytes from a row to the next where the build knows them."""
        return self.stride * self.bits // 8 if isinstance(self.stride, int) else None

    def stride_bytes(self, k: KernelBuilder) -> Reg:
        """The bytes from a row to the next, in an SGPR: one for all matrices whose rows lie equally far apart."""
        if isinstance(self.stride, Reg) and self.bits == 8:
            return self.stride
        key = "stride", identity_of(self.stride), self.bits
        known = k.made.get(key)
        if known is not None:
            assert isinstance(known, Kept) and isinstance(known.value, Reg)
            if k.holds_since(known.position, [known.value, *([self.stride] if isinstance(self.stride, Reg) else [])]):
                return known.value
        return k.hoist(lambda: self._make_stride(k, key))

    def _make_stride(self, k: KernelBuilder, key: object) -> Reg:
        reg = k.registers.sgprs(1, k.registers.unused(f"{self.name}_stride"))
        if isinstance(self.stride, int):
            k.s_mov_b32(reg, self.stride * self.bits // 8)
        else:
            k.s_mul_i32(reg, self.stride, self.bits // 8)
        k.made[key] = Kept(reg, len(k.items))
        return reg

    def rows(self, first: Reg | int, count: int) -> Rows:
        """`count` rows from number `first` (an SGPR, or a number) on."""
        return Rows(self, first, 0, count)

    def walk(self, first: Reg, count: int, beyond: int | None = None) -> Walk:
        """Rows that go down by `count` an iteration, from the one whose number is in SGPR `first` on, up to `beyond` after the last."""
        return Walk(self, first, 0, count, beyond=beyond)


def packed_matrix(k: KernelBuilder, m: Matrix) -> Matrix:
    """A matrix of 4- or 6-bit elements, whose sizes count those, as one of bytes. Raises TileError for rows that are no whole bytes."""
    whole = 8 // math.gcd(8, m.bits)
    odd = next((size for size in (m.columns_register, m.stride) if isinstance(size, int) and size % whole), None)
    if odd is not None:
        raise TileError(f"{m.name}: {odd} elements of {m.dtype} are no whole bytes; a multiple of {whole} is", k.here())
    columns, stride = (elements_to_bytes(k, m.name, size, m.bits) for size in (m.columns_register, m.stride))
    return Matrix(m.name, "i8", m.pointer, m.rows_register, columns, stride, m.least * m.bits // 8,
                  None if m.most is None else -(-m.most * m.bits // 8), max(1, m.multiple * m.bits // 8), m.dtype)


def elements_to_bytes(k: KernelBuilder, name: str, count: Reg | int, bits: int) -> Reg | int:
    """The bytes of so many elements of 4 or 6 bits; of an SGPR in one that is made once, before a loop."""
    if isinstance(count, int):
        return count * bits // 8
    key = "bytes of elements", identity_of(count), bits
    known = k.made.get(key)
    if isinstance(known, Kept) and isinstance(known.value, Reg) and k.holds_since(known.position, [known.value, count]):
        return known.value
    return k.hoist(lambda: _bytes_of(k, name, count, bits, key))


def _bytes_of(k: KernelBuilder, name: str, count: Reg, bits: int, key: object) -> Reg:
    found = k.registers.sgprs(1, k.registers.unused(f"{name}_bytes"), note=f"of {count} elements of {bits} bits")
    if bits == 4:
        k.s_lshr_b32(found, count, 1)
    else:
        k.s_mul_i32(found, count, bits // 2)
        k.s_lshr_b32(found, found, 2)
    k.made[key] = Kept(found, len(k.items))
    return found
