"""How far each parameter that nobody measured moves a prediction: every assumed row of the timing table by +-20 %, one at a time.

    python -m asmgen.tools.sensitivity gemm-bf16 -p m=4096 -p n=4096 -p k=1024 [--arch A] [--gpu G] [--all]
    python -m asmgen.tools.sensitivity --report [--k 2048]

The first prints, for each parameter that moves anything, the change of the run's cycles, of the main loop's cycles a round and of the
predicted time; the second the change of the predicted time of each row of the report of measurements that has a kernel, its depth
shortened to `--k`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import click

from asmgen.isa.errors import AsmgenError
from asmgen.isa.timing import GPUS, PARAMETERS, Timing
from asmgen.kernels.registry import family as find_family
from asmgen.tools.measured import MEASUREMENTS, Measurement, trace_row
from asmgen.tools.profile_command import choose_timing, report_traced, trace_kernel
from asmgen.tools.running.build import build_kernel
from asmgen.tuning.traced import Traced

FACTORS = (0.8, 1.2)
_NO_TIME = frozenset({"compute_units"})  # not assumed, and no time
_STILL = 0.0005

Figures = tuple[float, float, float]
"""Cycles of the run, cycles of a round of its main loop, seconds of the launch."""


@dataclass(frozen=True)
class SensitivityRow:
    """One parameter: relative changes of the figures by FACTORS."""

    name: str
    tag: str
    changes: tuple[Figures, ...]

    @property
    def largest(self) -> float:
        """The largest change of anything."""
        return max(abs(value) for change in self.changes for value in change)


def sensitivity(figures: Callable[[Timing], Figures], timing: Timing, everything: bool = False) -> list[SensitivityRow]:
    """The rows, the most moving first; with `everything` measured parameters too."""
    base = figures(timing)
    rows = []
    for parameter in PARAMETERS:
        if parameter.name in _NO_TIME or not (everything or parameter.assumed):
            continue
        changes = []
        for factor in FACTORS:
            moved = figures(timing.scaled(parameter.name, factor))
            changes.append(tuple(new / old - 1 if old else 0.0 for new, old in zip(moved, base, strict=True)))
        rows.append(SensitivityRow(parameter.name, parameter.tag, tuple((one[0], one[1], one[2]) for one in changes)))
    return sorted(rows, key=lambda row: -row.largest)


def figures_of(traced: Traced, level: str) -> Callable[[Timing], Figures]:
    """What a trace gives with a table."""
    def figures(chosen: Timing) -> Figures:
        found = report_traced(traced, chosen, level, 1)
        loop = found.profile.main_loop
        return float(found.profile.cycles), loop.cycles if loop is not None else 0.0, found.estimate.seconds

    return figures


def table(rows: Sequence[SensitivityRow]) -> str:
    """For people."""
    lines = ["parameter               tag     cycles -20 % +20 %     loop -20 % +20 %     time -20 % +20 %   (all predicted)"]
    for row in rows:
        if row.largest >= _STILL:
            low, high = row.changes
            lines.append(f"{row.name:24}{row.tag:6}" + "".join(f"{low[location]:+13.1%}{high[location]:+8.1%}" for location in range(3)))
    still = [row.name for row in rows if row.largest < _STILL]
    lines.append(f"no change: {', '.join(still) or 'none'}")
    return "\n".join(lines) + "\n"


def report_table(measurements: Sequence[Measurement], k: int) -> str:
    """Changes of the predicted time by each assumed parameter -20 % and +20 %, a column for each measurement that has a kernel."""
    columns: list[tuple[str, dict[str, SensitivityRow]]] = []
    without = 0
    for one in measurements:
        traced = trace_row(one, k)
        if traced is None:
            without += 1
            continue
        rows = sensitivity(figures_of(traced, "grid"), choose_timing(GPUS[one.gpu], one.gpu, None))
        columns.append((one.what, {row.name: row for row in rows}))
    lines = [f"({chr(ord('a') + number)}) {what}" for number, (what, _) in enumerate(columns)]
    lines.append("predicted time        tag   " + "".join(f"   ({chr(ord('a') + number)}) -20 %  +20 %" for number in range(len(columns))))
    still = []
    for parameter in PARAMETERS:
        moved = [found[parameter.name] for _, found in columns if parameter.name in found]
        if not moved:
            continue
        if max(abs(change[2]) for row in moved for change in row.changes) < _STILL:
            still.append(parameter.name)
            continue
        lines.append(f"{parameter.name:22}{parameter.tag:6}"
                     + "".join(f"{row.changes[0][2]:+12.1%}{row.changes[1][2]:+7.1%}" for row in moved))
    lines.append(f"no change: {', '.join(still) or 'none'}; {without} rows have no kernel yet")
    return "\n".join(lines) + "\n"


@click.command()
@click.argument("kernel", required=False)
@click.option("--arch")
@click.option("--gpu")
@click.option("-p", "parameters", multiple=True, metavar="NAME=VALUE")
@click.option("--data", default="grid", type=click.Choice(["l2", "hbm", "grid"]))
@click.option("--all", "everything", is_flag=True, help="Measured parameters too.")
@click.option("--report", "whole_report", is_flag=True, help="Every row of the report of measurements.")
@click.option("--k", default=2048, show_default=True, help="Depth of the report's rows.")
def main(kernel: str | None, arch: str | None, gpu: str | None, parameters: tuple[str, ...], data: str, everything: bool,
         whole_report: bool, k: int) -> None:
    """The sensitivity of a library kernel's prediction, or of the report's."""
    if whole_report:
        click.echo(report_table(MEASUREMENTS, k), nl=False)
        return
    if kernel is None:
        raise AsmgenError("name a kernel of the library, or give --report")
    library = find_family(kernel)
    chosen = library.check_arch(arch or "")
    values = library.parse(chosen, parameters)
    contract = library.contract(chosen, values)
    resolved = contract.resolve_run(values)
    built_from = {name: resolved[name] for name in resolved if contract.parameter(name).kind == "build"}
    traced = trace_kernel(library, build_kernel(library, chosen, built_from), resolved, 1)
    click.echo(table(sensitivity(figures_of(traced, data), choose_timing(chosen, gpu, None), everything)), nl=False)


if __name__ == "__main__":
    main()
