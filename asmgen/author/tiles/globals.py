"""Global views: matrices in memory with rows and strides, tiles of them with a buffer descriptor each, and steps along K.

    a = matrix(k, "a", "bf16", rows=k.argument("m"), columns=k.argument("k"), stride=k.argument("lda"))
    upper, lower = a.rows(y, 256).halves()     # 128 rows each, bounds to the byte
    upper.k(t + 2)                             # its columns of iteration t + 2, for fill and load

A view's base is a 64-bit address, so tensors may exceed 4 GiB; offsets inside of a tile of rows are 32 bits. Where the contract says how
far rows lie apart at most, rows that 32 bits may not reach are refused; `most_stride` is what the contract may allow.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from asmgen.author.step.iterations import StepIndex
from asmgen.author.tiles.tiles import TileError
from asmgen.isa.bufferformats import MOST_RECORDS, RAW_BUFFER
from asmgen.isa.layouts_mfma import element_bits
from asmgen.isa.records import dataclass
from asmgen.isa.registers import Reg

if TYPE_CHECKING:
    from asmgen.author.emit.builder import Builder


def most_stride(rows: int, bits: int, beside: int = 0) -> int:
    """How many elements of `bits` bits rows, none longer than that, may lie apart where one descriptor shows `rows` of them and `beside`
    bytes more: offsets and num_records are 32 bits."""
    return (MOST_RECORDS - beside) * 8 // (rows * bits)


@dataclass(eq=False)
class Rows:
    """`count` rows of a matrix from a row of its own on, with a descriptor for each slack, made when it is first used.

    Rows beyond the matrix read as 0 and are not written: the descriptor ends after the last byte of the last row. `first` is an SGPR.
    `near` says that code asks whether the rows fit one descriptor before it uses them.
    """

    matrix: Matrix
    first: Reg
    offset: int
    count: int
    descriptors: dict[int | Reg, Reg] = field(default_factory=dict)  # by slack
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

    def resource(self, k: Builder, slack: Reg | int = 0) -> Reg:
        """The descriptor. A tile of rows that begins after the matrix's last row shows that row instead: nothing of it is used.

        Its base lies `slack` bytes before the rows, so that offsets from which an immediate was taken off are not negative; in an SGPR
        it is 0 where the rows lie far apart. Raises TileError where the contract lets them lie so far apart that 32 bits do not reach the
        last one.
        """
        if slack not in self.descriptors:
            self.check_reach(k, slack)
            self.descriptors[slack] = k.hoist(lambda: self._describe(k, slack))
        return self.descriptors[slack]

    def fits(self, beside: int = 0) -> bool:
        """Whether a descriptor shows the rows and `beside` bytes at any stride of the contract; True where that says no largest one."""
        return self.matrix.most is None or self.reach is None or self.matrix.most <= most_stride(self.reach, self.matrix.bits, beside)

    def check_reach(self, k: Builder, slack: Reg | int, more: int = 0) -> None:
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

    def _describe(self, k: Builder, slack: Reg | int) -> Reg:
        assert k.registers is not None
        m = self.matrix
        descriptor = k.registers.sgprs(4, k.registers.unused(f"{m.name}_buffer{self.offset or ''}"))
        base, records = descriptor[0:1], descriptor[2]
        stride = m.stride_bytes(k)
        with k.scratch("first", file="s") as first, k.scratch("last", file="s") as last:
            k.s_sub_u32(last, m.rows_register, 1)
            if self.offset:
                k.s_add_u32(first, self.first, self.offset)
            k.s_min_u32(first, first if self.offset else self.first, last)
            k.s_sub_u32(records, last, first)
            if self.reach is not None:
                k.s_min_u32(records, records, self.reach - 1)
            k.s_mul_i32(records, records, stride)
            k.s_mul_i32(base[0], first, stride)
            k.s_mul_hi_u32(last, first, stride)
            k.s_add_u32(base[0], m.pointer[0], base[0])
            k.s_addc_u32(base[1], m.pointer[1], last)
            row: Reg | int = last
            if isinstance(m.columns_register, int):
                row = m.columns_register * m.bits // 8
            else:
                k.s_mul_i32(last, m.columns_register, m.bits // 8)
            k.s_add_u32(records, records, row)
        if slack:
            k.s_sub_u32(base[0], base[0], slack)
            k.s_subb_u32(base[1], base[1], 0)
            k.s_add_u32(records, records, slack)
        k.s_mov_b32(descriptor[3], RAW_BUFFER)
        return descriptor


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

    def offset_of(self, k: Builder, index: StepIndex) -> Reg:
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

    def _make(self, k: Builder) -> Reg:
        assert k.registers is not None
        self.matrix.stride_bytes(k)
        self.pace = k.registers.sgprs(1, k.registers.unused(f"{self.matrix.name}_pace"), note="bytes an iteration")
        k.s_mul_i32(self.pace, self.matrix.stride_bytes(k), self.count)
        return k.registers.sgprs(1, k.registers.unused(f"{self.matrix.name}_gone"), note="bytes that the rows have gone down")

    def begin(self, k: Builder, ahead: int) -> None:
        """A loop begins whose first copy stands `ahead` iterations before the first: the offset that this copy would have."""
        assert self.gone is not None and self.pace is not None and self.ahead is not None
        k.s_mul_i32(self.gone, self.pace, self.ahead - ahead)

    def go_on(self, k: Builder, step: int = 0, count_and_room: tuple[Reg, Reg] | None = None) -> None:
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
    """rows x columns elements in memory, rows `stride` elements apart; all sizes are SGPRs.

    The stride is `least` to `most` elements, as the contract says (None: it says nothing).
    """

    name: str
    dtype: str
    pointer: Reg
    rows_register: Reg
    columns_register: Reg | int
    stride: Reg
    least: int = 0
    most: int | None = None
    _stride_bytes: Reg | None = field(default=None)

    @property
    def bits(self) -> int:
        """Bits of an element."""
        return element_bits(self.dtype)

    def stride_bytes(self, k: Builder) -> Reg:
        """The bytes from a row to the next, in an SGPR."""
        if self._stride_bytes is None:
            def make() -> Reg:
                assert k.registers is not None
                reg = k.registers.sgprs(1, f"{self.name}_stride")
                k.s_mul_i32(reg, self.stride, self.bits // 8)
                return reg

            self._stride_bytes = k.hoist(make)
        return self._stride_bytes

    def rows(self, first: Reg, count: int) -> Rows:
        """`count` rows from the one whose number is in SGPR `first` on."""
        return Rows(self, first, 0, count)

    def walk(self, first: Reg, count: int, beyond: int | None = None) -> Walk:
        """Rows that go down by `count` an iteration, from the one whose number is in SGPR `first` on, up to `beyond` after the last."""
        return Walk(self, first, 0, count, beyond=beyond)
