"""The prediction for every variant of the library on the same problems, and two of them side by side: before and after a change.

    python -m asmgen.tools.reprofile [--gpu MI355X] [--kernel gemm-bf16] [--json FILE]
    python -m asmgen.tools.reprofile --json AFTER --before BEFORE

With `--json` each row is kept in the file when it is ready, and a run goes on where the one before it ended. A file is of one state of
the source: rows of another one are refused. With `--before` nothing is predicted; the rows of two files are printed beside each other.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from asmgen.author.contract.contract import ContractError
from asmgen.author.contract.variant import Variant
from asmgen.author.family.family import Family
from asmgen.files import read_plain, write_plain
from asmgen.isa.errors import AsmgenError
from asmgen.isa.timing import DEFAULT_GPU, GPUS, Timing
from asmgen.kernels.registry import family as find_family
from asmgen.kernels.tuned import PREDICTING_ROOMS
from asmgen.launch.cache import source_digest
from asmgen.tools.profile_command import ProfileReport, choose_timing, report_traced, trace_kernel
from asmgen.tools.running.build import Built, build_kernel

_PRODUCTS = tuple({"m": edge, "n": edge, "k": edge} for edge in (4096, 8192))
_ATTENTION = tuple({"b": 16, "hq": 16, "hkv": 16, "sq": 4096, "causal": causal} for causal in (False, True))
_ROWS = ({"rows": 16384, "columns": 512},)  # which every number of lanes serves
PROBLEMS: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    "gemm-bf16": _PRODUCTS, "gemm-fp8": _PRODUCTS, "gemm-mx": (*_PRODUCTS, {"m": 16, "n": 4096, "k": 512}),
    "attention-forward": _ATTENTION, "attention-backward": _ATTENTION,
    **dict.fromkeys(("softmax", "norm", "norm-backward", "quantize", "activation"), _ROWS), "rope": ({"b": 1, "s": 4096, "h": 16},)}
"""What each family is asked for."""
_TOLD = 0.005
"""A row of two files differs where its times do by more than this share."""


@dataclass(frozen=True)
class ReprofileRow:
    """One variant on one problem. `key` is the row's name in a file."""

    key: str
    variant: Variant
    gpu: str
    report: ProfileReport

    def figures(self) -> dict[str, Any]:
        """What a file keeps. The loop's figures are of one trip through its code."""
        loop, whole = self.report.profile.main_loop, self.report.estimate
        of_loop = {"loop_clk": loop.cycles, "loop_busy": loop.matrix_busy, "binds": loop.bounds.binding} if loop is not None else {}
        return {"us": whole.seconds * 1e6, "tflops": whole.tflops, "busy": self.report.profile.matrix_busy, "limit": whole.limit, **of_loop}


def key_of(library: Family, variant: Variant, gpu: str, problem: Mapping[str, Any]) -> str:
    """Kernel, GPU, what chooses the variant but what it leaves out, problem: nothing that a change of code or model changes."""
    fixed = library.fixed(variant).items()
    parts = [f"{name}={value}" for name, value in fixed if name not in ("tile", "schedule") and value is not False]
    name = " ".join([*filter(None, (variant.tile_text, variant.schedule)), *parts])
    return " | ".join((library.name, gpu, name or "the only one", " ".join(f"{key}={value}" for key, value in problem.items())))


HEADING = f"{'kernel | GPU | variant | problem':110}{'us':>9}{'TFLOPS':>8}{'busy':>8}{'loop clk':>10}{'in loop':>8}  limit (all predicted)"


def line(key: str, figures: Mapping[str, Any]) -> str:
    """A line of the table."""
    in_loop = f"{figures['loop_clk']:10.0f}{figures['loop_busy']:8.1%}" if "loop_clk" in figures else f"{'no loop':>18}"
    return f"{key:110}{figures['us']:9.1f}{figures['tflops']:8.0f}{figures['busy']:8.1%}{in_loop}  {figures['limit']}"


def rows(library: Family, gpu: str | None = None, known: Collection[str] = ()) -> Iterator[ReprofileRow]:
    """Every variant of a family on those of its problems that it serves, on one GPU or on the default one of each architecture, but for
    the keys in `known`."""
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
            key = key_of(library, variant, chosen, problem)
            if key in known:
                continue
            build = {name: resolved[name] for name in resolved if contract.parameter(name).kind == "build"}
            report = report_kernel(library, build_kernel(library, variant.arch, build), resolved, choose_timing(variant.arch, chosen, None))
            yield ReprofileRow(key, variant, chosen, report)


def report_kernel(library: Family, built: Built, parameters: Mapping[str, Any], chosen: Timing) -> ProfileReport:
    """The prediction of a variant's own kernel."""
    return report_traced(trace_kernel(library, built, parameters, 1), chosen, "grid", 1)


def kept(path: Path, source: str = "") -> dict[str, dict[str, Any]]:
    """The rows of a file; none where there is no file. Raises AsmgenError for rows of another source than the one that is named."""
    if not path.exists():
        return {}
    try:
        document = json.loads(read_plain(path))
        found: dict[str, dict[str, Any]] = document["rows"]
        theirs = document["source"]
    except (ValueError, KeyError, TypeError) as error:
        raise AsmgenError(f"{path} is no file of `python -m asmgen.tools.reprofile --json`: {error!r}; another path would work") from error
    if source and theirs != source:
        raise AsmgenError(f"{path} has rows of another state of the source; another path would work, or its removal")
    return found


def beside(before: Mapping[str, Mapping[str, Any]], after: Mapping[str, Mapping[str, Any]]) -> str:
    """Two files as a table in Markdown, a line for each variant, the times of its problems as before / after in us."""
    lines: list[str] = []
    groups: list[tuple[str, str]] = []  # in their order in the file
    heading, changes = "", []
    table: dict[tuple[str, str, str], list[str]] = {}
    for key, new in after.items():
        family, gpu, variant, _ = key.split(" | ")
        old = before.get(key)
        change = new["us"] / old["us"] - 1 if old else 0.0
        changes += [change] if old else []
        cell = f"{old['us']:.1f} / " if old else "new / "
        groups += [(family, gpu)] if (family, gpu) not in groups else []
        table.setdefault((family, gpu, variant), []).append(
            f"{cell}{new['us']:.1f}" + (f" ({change:+.1%})" if abs(change) > _TOLD else ""))
    for (family, gpu, variant), cells in sorted(table.items(), key=lambda row: groups.index(row[0][:2])):
        if heading != f"{family} on {gpu}":
            heading = f"{family} on {gpu}"
            lines += ["", f"| {heading} | us predicted, before / after |", "|---|---|"]
        lines.append(f"| {variant} | {', '.join(cells)} |")
    moved = sum(abs(change) > _TOLD for change in changes)
    summary = [f"{len(after)} rows, {len(changes)} of them in both; {moved} differ by more than {_TOLD:.1%}"]
    if changes:
        summary[0] += f"; median {statistics.median(changes):+.1%}, from {min(changes):+.1%} to {max(changes):+.1%}"
    return "\n".join([*summary, *lines]) + "\n"


@click.command()
@click.option("--gpu", type=click.Choice(sorted(GPUS)), help="Default: MI300X for gfx942, MI355X for gfx950.")
@click.option("--kernel", type=click.Choice(sorted(PROBLEMS)), help="Only this family.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Keep the rows here; those that it has are not predicted again.")
@click.option("--before", type=click.Path(path_type=Path, exists=True), help="Print the rows of --json beside those of this file.")
def main(gpu: str | None, kernel: str | None, path: Path | None, before: Path | None) -> None:
    """Print the table."""
    if before is not None and path is None:
        raise click.UsageError("--before compares with the file that --json names")
    if before is not None and path is not None and not path.exists():
        raise click.UsageError(f"--before compares with the file of --json, and there is no {path}; a run without --before makes it")
    if before is not None and (gpu is not None or kernel is not None):
        raise click.UsageError("--before compares all rows of two files; without --gpu and --kernel it would work")
    try:
        if before is not None and path is not None:
            click.echo(beside(kept(before), kept(path)), nl=False)
            return
        source = source_digest(PREDICTING_ROOMS)
        known = kept(path, source) if path is not None else {}
        click.echo(HEADING)
        for name in PROBLEMS:
            for row in rows(find_family(name), gpu, known) if kernel in (None, name) else ():
                known[row.key] = row.figures()
                click.echo(line(row.key, known[row.key]))
                if path is not None:
                    write_plain(path, json.dumps({"source": source, "rows": known}, indent=1).encode())
    except AsmgenError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
