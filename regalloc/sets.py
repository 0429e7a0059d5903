"""Register sets: an ordered list of registers under one name, over several ranges and files, and in any order.

    K = plan.pin("K", (a[0:47], v[56:71]))     # 64 registers: 0 to 47 are AGPRs
    K[46:47]                                   # a[46:47]; K[47:48] crosses a border and is a set again
    K.operand(44, 4)                           # a[44:47], or an error that says where the border is
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from asmgen.isa.records import cached_property, dataclass
from asmgen.isa.registers import Reg
from asmgen.regalloc.ranges import OwnedReg, PlanError, author_line, phased


@dataclass(frozen=True)
class RegisterSet:
    """Registers in an order of their own: item i is the i-th register of `parts`, one range after the other.

    Parts keep the lease under which a plan handed them out.
    """

    parts: tuple[Reg, ...]

    @cached_property
    def items(self) -> tuple[Reg, ...]:
        """Every register alone, in order."""
        return tuple(part[index] for part in self.parts for index in range(part.count))

    @property
    def count(self) -> int:
        """How many registers there are."""
        return len(self.items)

    @property
    def mask(self) -> int:
        """One bit a register, as `Reg.mask`."""
        mask = 0
        for part in self.parts:
            mask |= part.mask
        return mask

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Reg]:
        return iter(self.items)

    def __getitem__(self, key: int | slice) -> Reg | RegisterSet:
        """Item `q[2]`, or items `q[4:7]` (inclusive, as in the assembler): a register range where they are neighbours, else a set.

        Raises IndexError outside of the set.
        """
        first, last = (int(key.start), int(key.stop)) if isinstance(key, slice) else (int(key), int(key))
        if not 0 <= first <= last < self.count:
            raise IndexError(f"{self} has {self.count} registers, numbered 0 to {self.count - 1}: [{first}:{last}] is not inside")
        parts = join(self.items[first:last + 1])
        return parts[0] if len(parts) == 1 else RegisterSet(parts)

    def operand(self, first: int, count: int) -> Reg:
        """Items `first` to `first + count - 1` as one operand.

        Raises PlanError where they are no neighbours of one file: no instruction takes such a tuple.
        """
        found = self[first:first + count - 1]
        if isinstance(found, RegisterSet):
            raise PlanError(f"items {first} to {first + count - 1} of {self} are {found}, which is no tuple of neighbours; "
                            f"an operand of {count} must lie within one range of the set", author_line())
        return found

    def reordered(self, order: Sequence[int]) -> RegisterSet:
        """The same registers in another order: item i is this set's item `order[i]`. Raises PlanError for what is no permutation."""
        if sorted(order) != list(range(self.count)):
            raise PlanError(f"a set of {self.count} registers is reordered by a permutation of 0 to {self.count - 1}, not by {list(order)}",
                            author_line())
        return RegisterSet(join([self.items[index] for index in order]))

    def __str__(self) -> str:
        return f"({', '.join(str(part) for part in self.parts)})"


def join(registers: Sequence[Reg]) -> tuple[Reg, ...]:
    """Ranges of registers in the given order, neighbours of one lease joined."""
    parts: list[Reg] = []
    for reg in registers:
        last = parts[-1] if parts else None
        if last is not None and _neighbours(last, reg):
            count = last.count + reg.count
            parts[-1] = last.moved(0, count) if isinstance(last, OwnedReg) else Reg(last.file, last.index, count)
        else:
            parts.append(reg)
    return tuple(parts)


def _neighbours(one: Reg, other: Reg) -> bool:
    """Whether a range follows another one of its lease, in each phase."""
    if one.file != other.file or one.index + one.count != other.index or lease_of(one) != lease_of(other):
        return False
    phases, others = (reg.by_phase if isinstance(reg, OwnedReg) else () for reg in (one, other))
    return phases is others or len(phases) == len(others) and all(map(_neighbours, phases, others))


def phased_sets(sets: Sequence[RegisterSet]) -> RegisterSet | None:
    """The first of those sets, whose registers are those of each set in turn; None where one of them belongs to no plan."""
    owned = [[reg for reg in one.items if isinstance(reg, OwnedReg)] for one in sets]
    if any(len(regs) != len(sets[0]) for regs in owned):
        return None
    return RegisterSet(join([phased(regs) for regs in zip(*owned, strict=True)]))


def lease_of(reg: Reg) -> int | None:
    """The number of the lease under which a plan handed a register out, None for one that no plan did."""
    return reg.lease if isinstance(reg, OwnedReg) else None
