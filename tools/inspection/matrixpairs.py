"""Consecutive matrix instructions: what stands between them, and which operands and accumulators they share.

Sharing saves energy, and a GPU at its power limit gains clock by it (docs/facts/measured_gfx950.md section 1): of 16x16 shapes those that
follow on the same accumulator keep it in the matrix core; of each operand side eight register addresses are remembered, and reads
that meet them are left out.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from asmgen.isa.opcodes.mfma import MFMA
from asmgen.isa.operands import Operand
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction

REMEMBERED = 8
"""Register addresses that the core remembers of each operand side (docs/facts/measured_gfx950.md section 1)."""


@dataclass(frozen=True)
class MatrixStream:
    """`gaps`: how often so many other instructions stand between two. Of `pairs` neighbours, how many share accumulator, A, B, any of these
    (`holding`). `reads`: registers that the operand sides read, `left_out` how many of them the core remembers. `small` counts 16x16 shapes
    and less."""

    gaps: dict[int, int] = field(default_factory=dict)
    pairs: int = 0
    same_accumulator: int = 0
    same_a: int = 0
    same_b: int = 0
    reads: int = 0
    left_out: int = 0
    small: int = 0
    holding: int = 0

    def as_json(self) -> dict[str, Any]:
        """The histogram and the reuse."""
        return {"mfma_gaps": {str(gap): count for gap, count in self.gaps.items()},
                "mfma_reuse": {"pairs": self.pairs, "same_accumulator": self.same_accumulator, "same_a": self.same_a, "same_b": self.same_b,
                               "holding": self.holding, "operand_registers_read": self.reads, "operand_reads_left_out": self.left_out}}

    def advice(self) -> str:
        """What the energy rule says of them, "" where it has nothing to say."""
        if not self.pairs:
            return ""
        if 2 * self.small >= self.pairs:
            wish, share = "16x16 shapes save most where neighbours share the accumulator (k inner)", self.same_accumulator / self.pairs
            return f"{wish}: {share:.0%} do"
        return f"32x32 shapes save where neighbours share an operand (n inner): {self.left_out / self.reads if self.reads else 0:.0%} " \
               "of operand reads are left out"


def matrix_stream(instructions: Sequence[Instruction], loops: bool) -> MatrixStream:
    """Of a stretch of code in program order; `loops`: its last instruction is followed by its first."""
    locations = [number for number, instruction in enumerate(instructions) if instruction.name in MFMA]
    if not locations:
        return MatrixStream()
    gaps = [later - earlier - 1 for earlier, later in pairwise(locations)]
    chain = [instructions[number] for number in locations]
    neighbours = list(pairwise(chain))
    if loops:
        gaps.append(len(instructions) - 1 - locations[-1] + locations[0])
        neighbours.append((chain[-1], chain[0]))
    shared: Counter[str] = Counter()
    for one, other in neighbours:
        mine, before = _operands(other), _operands(one)
        same = {name for name in ("a", "b") if mine[name] == before[name]}
        same |= {"accumulator"} if before["d"] == mine["c"] == mine["d"] else set()
        shared.update(same)
        shared["any"] += bool(same)
    reads, left_out = _remembered(chain, loops)
    return MatrixStream(dict(sorted(Counter(gaps).items())), len(neighbours), shared["accumulator"], shared["a"], shared["b"], reads,
                        left_out, sum(MFMA[instruction.name].m <= 16 for instruction in chain), shared["any"])


def _operands(instruction: Instruction) -> dict[str, Operand]:
    """d, a, b, c. Sparse forms accumulate in d, and the fourth operand is their index."""
    d, a, b, c = instruction.operands[:4]
    return {"d": d, "a": a, "b": b, "c": d if MFMA[instruction.name].sparse else c}


def _remembered(chain: Sequence[Instruction], loops: bool) -> tuple[int, int]:
    """(registers read by the operand sides, those found among its last ones). A loop counts as it runs after its first round."""
    reads = left_out = 0
    for side in ("a", "b"):
        last: deque[int] = deque(maxlen=REMEMBERED)
        for counted in ((False, True) if loops else (True,)):
            for instruction in chain:
                operand = _operands(instruction)[side]
                for register in _registers(operand):
                    reads += counted
                    left_out += counted and register in last
                    if register in last:
                        last.remove(register)
                    last.append(register)
    return reads, left_out


def _registers(operand: Operand) -> range:
    """Bits of the register mask."""
    if not isinstance(operand, Reg):
        return range(0)
    first = (operand.mask & -operand.mask).bit_length() - 1
    return range(first, first + operand.count)
