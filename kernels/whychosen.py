"""Why the tensor functions take the variant that they take: `asmgen tune --why`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from asmgen.author.family.nearest import HOW
from asmgen.kernels.figuretables import packaged, path_of
from asmgen.kernels.registry import family as find_family
from asmgen.kernels.tuned import Estimated, estimated, of_library, timed_key

_SHARING: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "split_k": lambda build: build.get("split_k", 1) > 1, "reduce": lambda build: build.get("split_k", 1) > 1,
    "persistent": lambda build: build["persistent"], "stream_k": lambda build: build["stream_k"]}
"""How workgroups share the work, by build parameter, with whether a build's row names it."""
_STALE = "made by another model: python -m asmgen.tools.tunetables makes them anew"


@dataclass(frozen=True)
class Why:
    """The variants of a choice, the fastest first, and where their figures come from: so many of the library's, and what to remark."""

    kernel: str
    arch: str
    gpu: str
    rows: tuple[Estimated, ...]
    packaged: int
    remark: str

    def as_json(self, top: int) -> dict[str, Any]:
        """JSON values."""
        return {"kernel": self.kernel, "arch": self.arch, "gpu": self.gpu, "predicted": True, "packaged_figures": self.packaged,
                "remark": self.remark or None,
                "variants": [{"build": dict(row.build), "seconds_predicted": row.seconds,
                              "launches": [{"seconds": one.seconds, "limit": one.limit, "parts": one.parts, "workgroups": one.workgroups,
                                            "rounds": one.rounds, "clock_mhz": one.clock} for one in row.launches]}
                             for row in self.rows[:top]]}

    def text(self, top: int) -> str:
        """For people."""
        source = (f"figures of {self.packaged} of {len(self.rows)} variants come with the library" if self.packaged
                  else "figures were timed on this machine")
        lines = [f"{self.kernel} on {self.gpu} ({self.arch}): what tensor functions take, predicted, not measured",
                 f"  {source}{'; ' + self.remark if self.remark else ''}"]
        for row in self.rows[:top]:
            slower = row.seconds / self.rows[0].seconds if self.rows[0].seconds else 1.0
            named = " ".join(f"{name}={row.build[name]}" for name in (*HOW, *_SHARING) if name in row.build and (
                name in HOW or _SHARING[name](row.build)))
            lines.append(f"  {row.seconds * 1e6:9.2f} us  {slower:5.2f} x  {named}")
            lines += [f"{'':24}{_of_launch(one)}" for one in row.launches]
        return "\n".join(lines) + "\n"


def _of_launch(one: Any) -> str:
    parts = ", ".join(f"{name} {seconds * 1e6:.2f}" for name, seconds in sorted(one.parts.items(), key=lambda part: -part[1]))
    return (f"{one.seconds * 1e6:.2f} us, limit {one.limit}; {one.workgroups} workgroup{'s' * (one.workgroups > 1)} in {one.rounds} "
            f"round{'s' * (one.rounds > 1)} at {one.clock:.0f} MHz; us alone: {parts}")


def why(kernel: str, arch: str, gpu: str, given: Mapping[str, Any]) -> Why:
    """The choice for these values. Raises as `choose` does."""
    library, rows = find_family(kernel), estimated(kernel, arch, gpu, given)
    known = of_library(kernel, gpu)
    found = sum(bool(row.launches) and timed_key(library, row.build) in known for row in rows)
    stale = found > 0 and not packaged(kernel, gpu).of_today(gpu)
    return Why(kernel, arch, gpu, tuple(rows), found, f"{path_of(kernel, gpu).name} was {_STALE}" if stale else "")
