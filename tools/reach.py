"""`python -m asmgen.tools.reach [KERNEL ...]`: which instructions of the library's kernels do their example shapes never execute?

The shapes of a build are those of `smalllaunches`: given ones, then drawn ones as long as they execute something new. A result outside of
the tolerance is told too. The status is 1 where code is left or a result is wrong, 2 for a request that cannot be met.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import click

from asmgen.author.family.family import Family
from asmgen.emulator.scheduling.run import Options
from asmgen.kernels.registry import family as find_family
from asmgen.kernels.registry import names
from asmgen.program.program import Program
from asmgen.tools.mutate import builds
from asmgen.tools.running.build import Built, build_kernel
from asmgen.tools.running.executed import Executed, executed, stretches
from asmgen.tools.running.runner import run_kernel
from asmgen.tools.running.smalllaunches import drawn_launches, launches
from asmgen.tools.terminal.entry import status_of

_BARREN = 150  # drawn launches in a row that execute nothing new, after which no more are drawn


@dataclass(frozen=True)
class Reach:
    """What the shapes of one build execute together: `runs` launches, of which `kept` executed something new and `wrong` failed."""

    program: Program
    executed: Executed
    runs: int
    kept: tuple[Mapping[str, Any], ...]
    wrong: tuple[Mapping[str, Any], ...]

    def lines(self, title: str) -> list[str]:
        """For people."""
        head = f"{title}: {self.executed} by {len(self.kept)} of {self.runs} launches"
        return [head, *(f"  wrong: {launch}" for launch in self.wrong),
                *(f"  never: {line}" for line in stretches(self.program, self.executed.missing))]


def reach(family: Family, built: Built, barren: int = _BARREN) -> tuple[Reach, ...]:
    """Run the shapes of a build without the emulator's checks until all code is executed or `barren` drawn ones bring nothing new. Every
    other one's data holds NaN and infinities (author.problem.holds_nonfinite). What they execute of each kernel, in the order of launch."""
    programs, contract, build = [one.program for one in built.kernel.launches], built.kernel.contract, built.kernel.parameters
    rows: list[list[Sequence[int]]] = [[] for _ in programs]
    kept, wrong = [], []
    done = [executed(program, []) for program in programs]
    runs = idle = 0
    for launch, preload, drawn in _shapes(built):
        if drawn and (not any(one.missing for one in done) or idle >= barren):
            break
        runs += 1
        report = run_kernel(family, built, contract.resolve_run({**build, **launch}), "emulator", runs % 2,
                            program=built.kernel.program, options=Options(checks=False, preload=preload))
        if not report.passed:
            wrong.append(launch)
        counts = [run.result.counts for run in report.launches]
        found = [executed(program, [*known, new]) for program, known, new in zip(programs, rows, counts, strict=True)]
        idle = idle + 1 if found == done else 0
        if found != done:
            for known, new in zip(rows, counts, strict=True):
                known.append(new)
            kept.append(launch)
            done = found
    return tuple(Reach(program, one, runs, tuple(kept), tuple(wrong)) for program, one in zip(programs, done, strict=True))


def _shapes(built: Built) -> Iterator[tuple[Mapping[str, Any], bool, bool]]:
    """(run parameters, whether the firmware preloads arguments, whether it is a drawn one)."""
    contract, build = built.kernel.contract, built.kernel.parameters
    given = launches(contract, build)
    old = [(given[0], False, False)] if built.kernel.program.entry else []  # the entry of firmware that preloads nothing
    return chain(((launch, True, False) for launch in given), old, ((launch, True, True) for launch in drawn_launches(contract, build)))


@click.command()
@click.argument("kernels", nargs=-1)
@click.option("--arch", help="Only this architecture.")
@click.option("--all-builds", is_flag=True, help="Each choice of each build parameter too, not only the variants with the defaults.")
def commands(kernels: tuple[str, ...], arch: str | None, all_builds: bool) -> int:
    """List the instructions that no example shape executes; exit with 1 where there are any, or a result is wrong."""
    left = False
    for name in kernels or names():
        family = find_family(name)
        for target in (family.check_arch(arch),) if arch else family.archs:
            defaults = (family.contract_of(variant).resolve_build({}) for variant in family.variants(target))
            for build in builds(family, target) if all_builds else defaults:
                shown = " ".join(f"{key}={value}" for key, value in build.items())
                for found in reach(family, build_kernel(family, target, build)):
                    click.echo("\n".join(found.lines(f"{found.program.name} {target} {shown}".rstrip())))
                    left = left or bool(found.executed.missing or found.wrong)
    return int(left)


def main(arguments: Sequence[str] | None = None) -> None:
    """Never returns: exits with the status."""
    sys.exit(status_of(commands, "reach", arguments))


if __name__ == "__main__":
    main()
