"""What a bound matrix instruction knows of its operands."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from asmgen.emulator.machine.state import Machine
from asmgen.isa.mfma_arrays import OperandSlots
from asmgen.isa.opcodes.mfma import MfmaRow

Array = NDArray[Any]
DECODERS = ("bf16", "f16", "fp8", "bf8", "fp8 fnuz", "bf8 fnuz")
"""Element types that compiled loops decode from a lane's own registers."""


@dataclass(frozen=True)
class Source:
    """A or B of one instruction: which bits of which lanes its rows are.

    Rows are [block * k], each `edge` consecutive lanes from `lanes[row]` on; `registers` and `shifts` say where its bits begin.
    `moved` gives the lane that each lane reads (cbsz/abid, blgp), None for its own. `table` decodes codes of up to 16 bits.
    `decoder` is the place of the element type in DECODERS, negative for others.
    """

    slot: int
    count: int
    kind: str
    bits: int
    edge: int
    lanes: Array
    registers: Array
    shifts: Array
    moved: Array | None
    table: Array | None
    decoder: int = -1

    @cached_property
    def key(self) -> tuple[object, ...]:
        """What decides the decoded values besides the registers' contents; layouts are told apart by their (cached) arrays."""
        moved = None if self.moved is None else self.moved.tobytes()
        return self.slot, self.count, self.kind, id(self.registers), moved


@dataclass(frozen=True)
class Plan:
    """One instruction, bound: its sources, where C comes from (`c_slot` negative: `c_value`) and where D goes.

    `d_registers` and `d_lanes` [blocks, m] are D's places of column 0; the other columns follow in the next lanes.
    """

    row: MfmaRow
    machine: Machine
    a: Source
    b: Source
    c_slot: int
    c_value: Any
    d_slot: int
    d_registers: Array
    d_lanes: Array
    scales: tuple[tuple[int, int], ...]  # (slot, byte) of A's and B's
    index: tuple[int, OperandSlots] | None

    @cached_property
    def in_tiles(self) -> bool:
        """Whether compiled loops may take C from registers and put D into them tile by tile: D is C, or apart from it."""
        apart = self.c_slot < 0 or self.c_slot == self.d_slot or abs(self.c_slot - self.d_slot) >= self.row.cd_regs
        return apart and not self.row.sparse and self.row.m % 16 == 0 and self.row.n % 16 == 0

    @cached_property
    def straight(self) -> bool:
        """Whether the products are of DECODERS' values that each lane has in its own registers, without scales, `in_tiles`."""
        return self.in_tiles and not self.scales and all(source.decoder >= 0 and source.moved is None for source in (self.a, self.b))

    @property
    def work(self) -> int:
        """Multiplications of a wave."""
        return self.row.m * self.row.n * self.row.k * self.row.blocks
