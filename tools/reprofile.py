"""The prediction for every variant of the library on the same problems: a table to hold before and after a change of the model.

    python -m asmgen.tools.reprofile [--gpu MI355X] [--kernel gemm-bf16]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import click

from asmgen.author.contract.contract import ContractError
from asmgen.author.contract.variant import Variant
from asmgen.author.family.family import Family
from asmgen.isa.timing import DEFAULT_GPU, GPUS, Timing
from asmgen.kernels.registry import family as find_family
from asmgen.tools.build import Built, build_kernel
from asmgen.tools.profile_command import ProfileReport, choose_timing, report_traced, trace_kernel

_PRODUCTS = tuple({"m": edge, "n": edge, "k": edge} for edge in (4096, 8192))
_ATTENTION = tuple({"b": 16, "hq": 16, "hkv": 16, "sq": 4096, "causal": causal} for causal in (False, True))
PROBLEMS: Mapping[str, tuple[Mapping[str, Any], ...]] = {"gemm-bf16": _PRODUCTS, "gemm-fp8": _PRODUCTS, "gemm-mx": _PRODUCTS,
                                                     "attention-forward": _ATTENTION, "attention-backward": _ATTENTION}
"""What each family is asked for."""


@dataclass(frozen=True)
class ReprofileRow:
    """One variant on one problem."""

    variant: Variant
    gpu: str
    problem: Mapping[str, Any]
    report: ProfileReport

    def text(self) -> str:
        """A line of the table."""
        loop, whole = self.report.profile.main_loop, self.report.estimate
        name = f"{self.variant.tile_text} {self.variant.schedule}"
        extra = " ".join(f"{key}={value}" for key, value in self.variant.further if key in ("d", "scales"))
        problem = " ".join(f"{key}={value}" for key, value in self.problem.items())
        in_loop = f"{loop.cycles:8.0f}{loop.matrix_busy:8.1%}  {loop.bounds.binding:12}" if loop is not None else f"{'no loop':>30}"
        return (f"{self.variant.family:19}{self.gpu:8}{name:30}{extra:13}{problem:46}{whole.seconds * 1e6:9.1f}{whole.tflops:8.0f}"
                f"{self.report.profile.matrix_busy:8.1%}{in_loop}{whole.limit}")


HEADING = (f"{'kernel':19}{'GPU':8}{'variant':43}{'problem':46}{'us':>9}{'TFLOPS':>8}{'busy':>8}{'loop clk':>8}{'in loop':>8}  "
           f"{'binds':12}limit (all predicted)")


def rows(library: Family, gpu: str | None = None) -> Iterator[ReprofileRow]:
    """Every variant of a family on those of its problems that it serves, on one GPU or on the default one of each architecture."""
    for variant in library.variants():
        chosen = DEFAULT_GPU[variant.arch] if gpu is None else gpu
        if GPUS[chosen] != variant.arch:
            continue
        fixed = library.fixed(variant)
        for problem in PROBLEMS[library.name]:
            values = {**fixed, **problem}
            contract = library.contract(variant.arch, values)
            try:
                resolved = contract.resolve_run(values)
            except ContractError:  # all of K in registers, say, and a K that is longer
                continue
            build = {name: resolved[name] for name in resolved if contract.parameter(name).kind == "build"}
            report = report_kernel(library, build_kernel(library, variant.arch, build), resolved, choose_timing(variant.arch, chosen, None))
            yield ReprofileRow(variant, chosen, problem, report)


def report_kernel(library: Family, built: Built, parameters: Mapping[str, Any], chosen: Timing) -> ProfileReport:
    """The prediction of a variant's own kernel."""
    return report_traced(trace_kernel(library, built, parameters, 1), chosen, "grid", 1)


@click.command()
@click.option("--gpu", type=click.Choice(sorted(GPUS)), help="Default: MI300X for gfx942, MI355X for gfx950.")
@click.option("--kernel", type=click.Choice(sorted(PROBLEMS)), help="Only this family.")
def main(gpu: str | None, kernel: str | None) -> None:
    """Print the table."""
    click.echo(HEADING)
    for name in PROBLEMS:
        if kernel in (None, name):
            for row in rows(find_family(name), gpu):
                click.echo(row.text())


if __name__ == "__main__":
    main()
