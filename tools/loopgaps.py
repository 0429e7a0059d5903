"""Every matrix loop of the library against its lower bound, and how its products share operands.

    python -m asmgen.tools.loopgaps [--kernel gemm-bf16]

A loop is predicted with data in L2, for one workgroup. The bound (`asmgen.tuning.loopbounds`) is computed from the code alone. The status
is 1 if a bound lies more than 0.2 % above the prediction, which would make it no bound.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import click

from asmgen.author.contract.contract import ContractError, KernelContract
from asmgen.author.contract.variant import Variant
from asmgen.author.family.family import Family
from asmgen.isa.timing import gpu_of, timing
from asmgen.kernels.registry import family as find_family
from asmgen.tools.inspection.matrixpairs import MatrixStream, matrix_stream
from asmgen.tools.profile_command import lower_bound, report_traced, trace_kernel
from asmgen.tools.running.build import build_kernel
from asmgen.tuning.loopbounds import LoopBound

_STEPS = (16, 4, 1)  # of a product: enough rounds to leave the ends of a loop out, or as many as a variant takes
ALLOWED = 1.002
"""A bound may lie so far above a prediction, whose clk are counted over whole rounds."""


@dataclass(frozen=True)
class LoopGap:
    """One loop of a variant. `cycles` are predicted clk of a round, `bound` what no run is faster than; None where a branch skips a part of
    the loop."""

    variant: Variant
    first: int
    last: int
    instructions: int
    cycles: float
    busy: float
    bound: LoopBound | None
    stream: MatrixStream

    @property
    def sound(self) -> bool:
        """Whether the bound is one."""
        return self.bound is None or self.bound.least <= ALLOWED * self.cycles

    @property
    def holding(self) -> float:
        """The share of matrix instructions that reuse the accumulator of the one before, or hold one of its operands."""
        return self.stream.holding / max(1, self.stream.pairs)

    def text(self) -> str:
        """A line of the table."""
        name = f"{self.variant.arch} {self.variant.tile_text} {self.variant.schedule}"
        further = " ".join(f"{key}={value}" for key, value in self.variant.further if key in ("d", "scales"))
        least = f"{self.bound.least:8.0f} {self.cycles / self.bound.least - 1:6.1%}  {self.bound.binding}" if self.bound is not None else ""
        products = self.stream.pairs
        return (f"{self.variant.family:20}{name:40}{further:14}{self.first:5}-{self.last:<6}{self.instructions / products:6.3f}"
                f"{self.cycles:8.0f}{self.busy:7.1%}{self.holding:8.1%}{least}")


HEADING = (f"{'kernel':20}{'variant':54}{'loop':12}{'a MFMA':>6}{'clk':>8}{'busy':>7}{'holding':>8}{'bound':>8} {'above':>6}  "
           "binds (predicted)")


def loop_gaps(library: Family) -> Iterator[LoopGap]:
    """The steady loops with matrix instructions of each variant that has some."""
    for variant in library.variants():
        fixed = library.fixed(variant)
        contract, resolved = _resolved(library, variant, fixed)
        build = {name: resolved[name] for name in resolved if contract.parameter(name).kind == "build"}
        traced = trace_kernel(library, build_kernel(library, variant.arch, build), resolved, 1)
        found = report_traced(traced, timing(gpu_of(variant.arch, None)), "l2", 1).profile
        for loop in found.loops:
            code = found.program.instructions[loop.first:loop.last + 1]
            stream = matrix_stream(code, loops=True)
            if loop.steady and stream.pairs:
                yield LoopGap(variant, loop.first, loop.last, len(code), loop.cycles, loop.matrix_busy, lower_bound(loop, found), stream)


def _resolved(library: Family, variant: Variant, fixed: Mapping[str, Any]) -> tuple[KernelContract, dict[str, Any]]:
    """All parameters for one tile of a product of the most steps that the variant takes, or for one head of attention."""
    problems: list[dict[str, Any]] = [{"hq": 1, "sq": 1024}]
    if variant.family.startswith("gemm"):
        m, n, k = variant.tile
        problems = [{"m": m, "n": n, "k": steps * k} for steps in _STEPS]
    while True:
        values = {**fixed, **problems.pop(0)}
        contract = library.contract(variant.arch, values)
        try:
            return contract, dict(contract.resolve_run(values))
        except ContractError:
            if not problems:
                raise


@click.command()
@click.option("--kernel", multiple=True, default=("gemm-bf16", "gemm-fp8", "gemm-mx", "attention-forward", "attention-backward"))
def main(kernel: tuple[str, ...]) -> None:
    """Print the table."""
    click.echo(HEADING)
    wrong = 0
    for name in kernel:
        for gap in loop_gaps(find_family(name)):
            click.echo(gap.text())
            wrong += not gap.sound
    click.echo(f"bounds above the prediction: {wrong}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
