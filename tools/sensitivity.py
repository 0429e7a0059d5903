"""How far each parameter that nobody measured moves a prediction: every assumed row of the timing table by +-20 %, one at a time.

    python -m asmgen.tools.sensitivity gemm-bf16 -p m=4096 -p n=4096 -p k=1024 [--arch A] [--gpu G] [--all]

prints, for each parameter that moves anything, the change of the run's cycles, of the main loop's cycles a round and of the predicted time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import click

from asmgen.emulator.scheduling.trace import WaveTrace
from asmgen.isa.timing import PARAMETERS, Timing
from asmgen.kernels.registry import family as find_family
from asmgen.model.estimate import estimate
from asmgen.model.profile import profile
from asmgen.program.program import Program
from asmgen.tools.build import build_kernel
from asmgen.tools.profile_command import choose_timing, trace_kernel

FACTORS = (0.8, 1.2)
_WHOLE_GPU = frozenset({"compute_units"})  # not assumed, and no time


@dataclass(frozen=True)
class SensitivityRow:
    """One parameter: relative changes (cycles, loop cycles, seconds) by FACTORS."""

    name: str
    tag: str
    changes: tuple[tuple[float, float, float], ...]

    @property
    def largest(self) -> float:
        """The largest change of anything."""
        return max(abs(value) for change in self.changes for value in change)


def sensitivity(program: Program, waves: Sequence[WaveTrace], timing: Timing, level: str, workgroups: int,
                everything: bool = False) -> list[SensitivityRow]:
    """The rows, the most moving first; with `everything` measured parameters too."""
    def figures(chosen: Timing) -> tuple[float, float, float]:
        found = profile(program, waves, chosen, level)
        loop = found.main_loop
        return float(found.cycles), loop.cycles if loop is not None else 0.0, estimate(found, workgroups, 1).seconds

    base = figures(timing)
    rows = []
    for parameter in PARAMETERS:
        if parameter.name in _WHOLE_GPU or not (everything or parameter.assumed):
            continue
        changes = []
        for factor in FACTORS:
            moved = figures(timing.scaled(parameter.name, factor))
            changes.append(tuple(new / old - 1 if old else 0.0 for new, old in zip(moved, base, strict=True)))
        rows.append(SensitivityRow(parameter.name, parameter.tag, tuple((one[0], one[1], one[2]) for one in changes)))
    return sorted(rows, key=lambda row: -row.largest)


def table(rows: Sequence[SensitivityRow]) -> str:
    """For people."""
    lines = ["parameter               tag     cycles -20 % +20 %     loop -20 % +20 %     time -20 % +20 %   (all predicted)"]
    for row in rows:
        if row.largest >= 0.0005:
            low, high = row.changes
            lines.append(f"{row.name:24}{row.tag:6}" + "".join(f"{low[place]:+13.1%}{high[place]:+8.1%}" for place in range(3)))
    still = [row.name for row in rows if row.largest < 0.0005]
    lines.append(f"no change: {', '.join(still) or 'none'}")
    return "\n".join(lines) + "\n"


@click.command()
@click.argument("kernel")
@click.option("--arch")
@click.option("--gpu")
@click.option("-p", "parameters", multiple=True, metavar="NAME=VALUE")
@click.option("--data", default="grid", type=click.Choice(["l2", "hbm", "grid"]))
@click.option("--all", "everything", is_flag=True, help="Measured parameters too.")
def main(kernel: str, arch: str | None, gpu: str | None, parameters: tuple[str, ...], data: str, everything: bool) -> None:
    """The sensitivity of a library kernel's prediction."""
    library = find_family(kernel)
    chosen = library.check_arch(arch or "")
    values = library.parse(chosen, parameters)
    contract = library.contract(chosen, values)
    resolved = contract.resolve_run(values)
    built_from = {name: resolved[name] for name in resolved if contract.parameter(name).kind == "build"}
    traced = trace_kernel(library, build_kernel(library, chosen, built_from), resolved, 1)
    assert traced.trace.program is not None
    table_of = choose_timing(chosen, gpu, None)
    rows = sensitivity(traced.trace.program, list(traced.trace.waves()), table_of, data, traced.workgroups, everything)
    click.echo(table(rows), nl=False)


if __name__ == "__main__":
    main()
