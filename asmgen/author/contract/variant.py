"""Variants: what tells the kernels of a family apart, as frozen data."""

from __future__ import annotations

import math
from typing import Any

from asmgen.author.contract.contract import did_you_mean
from asmgen.isa.records import dataclass


@dataclass(frozen=True)
class Variant:
    """One variant of a family: frozen data.

    `tile` is the family's own meaning of a tile, `waves` the grid of waves of a workgroup, `occupancy` the waves a SIMD that the author
    wants (None asks for nothing). `further` are parameters of the variant alone, read as attributes (`variant.early`); one that has the
    name of a build parameter of the family fixes that parameter, and the number of waves a build parameter `waves`.
    """

    family: str
    arch: str
    tile: tuple[int, ...] = ()
    waves: tuple[int, ...] = (1,)
    schedule: str = ""
    occupancy: int | None = None
    further: tuple[tuple[str, Any], ...] = ()

    def __getattr__(self, name: str) -> Any:
        known = dict(self.__dict__.get("further", ()))
        if name not in known:
            raise AttributeError(f"variant {self} has no parameter {name!r}; {did_you_mean(name, known)}")
        return known[name]

    @property
    def wave_count(self) -> int:
        """Waves of a workgroup."""
        return math.prod(self.waves)

    @property
    def tile_text(self) -> str:
        """The tile as parameters and files spell it: 256x256x64."""
        return "x".join(map(str, self.tile))

    def describe(self) -> dict[str, Any]:
        """JSON values."""
        fixed: dict[str, Any] = {"arch": self.arch, "tile": self.tile_text, "waves": list(self.waves), "schedule": self.schedule}
        return fixed | dict(self.further)

    def __str__(self) -> str:
        named = [(name, value) for name, value in (("tile", self.tile_text), ("schedule", self.schedule)) if value]
        return " ".join(f"{name}={value}" for name, value in (*named, *self.further)) or "without tile and schedule"
