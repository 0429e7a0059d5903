"""LDS maps: the ranges of a workgroup's LDS, and the tokens that name their arrival."""

from __future__ import annotations

from dataclasses import field

from asmgen.isa.arch import architecture
from asmgen.isa.errors import AsmgenError
from asmgen.isa.records import dataclass
from asmgen.program.program import TokenUse
from asmgen.regalloc.ranges import author_line


@dataclass(frozen=True)
class LdsRange:
    """Bytes `low` to `high` - 1 under a name, and a token of that name."""

    name: str
    low: int
    high: int

    @property
    def size(self) -> int:
        """Bytes."""
        return self.high - self.low

    def written(self) -> TokenUse:
        """The token of an operation that fills it."""
        return TokenUse("write", self.name, self.low, self.high)

    def read(self) -> TokenUse:
        """The token of an operation that reads it."""
        return TokenUse("read", self.name, self.low, self.high)


@dataclass
class LdsMap:
    """Ranges of LDS, each taken from the lowest address up where no other holds bytes, and checked against the LDS size of the
    architecture. The names of those that others may take again are in `released`."""

    arch: str
    ranges: list[LdsRange] = field(default_factory=list)
    released: set[str] = field(default_factory=set)

    @property
    def size(self) -> int:
        """The bytes of LDS that the kernel needs."""
        return max((item.high for item in self.ranges), default=0)

    @property
    def limit(self) -> int:
        """The bytes that a workgroup may have."""
        return architecture(self.arch).lds_bytes

    def take(self, name: str, size: int, align: int = 16) -> LdsRange:
        """Take `size` bytes, the first ones that no range holds. Raises AsmgenError if the architecture has not that much LDS."""
        low = 0
        for item in sorted((item for item in self.ranges if item.name not in self.released), key=lambda item: item.low):
            if low + size <= item.low:
                break
            low = max(low, -(-item.high // align) * align)
        limit = self.limit
        if low + size > limit:
            held = ", ".join(f"{item.name} {item.size}" for item in self.ranges) or "nothing"
            raise AsmgenError(f"LDS range {name} needs {size} bytes from {low} on, but {self.arch} has {limit} bytes a workgroup; "
                              f"taken so far: {held}; fewer stages or smaller tiles would fit", author_line())
        self.ranges.append(LdsRange(name, low, low + size))
        return self.ranges[-1]

    def release(self, *ranges: LdsRange) -> None:
        """Later ranges may take these bytes: the code that takes them has barriers after all reads of what is there."""
        self.released |= {item.name for item in ranges}

    def table(self) -> list[str]:
        """The map as text, a line for each range."""
        return [f"{item.low:#07x}:{item.high:#07x}  {item.size:6d} bytes  {item.name}" for item in self.ranges]
