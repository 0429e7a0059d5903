"""Published measurements beside the model's predictions: `python -m asmgen.tools.measured`.

A row names the kernel of the library that does what was measured, with its parameters, or none yet. Nothing in the timing table is fitted
to a row: the report shows how far off a prediction is, whatever it says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import click

from asmgen.isa.arch import ARCHITECTURES
from asmgen.isa.timing import GPUS
from asmgen.kernels.registry import family as find_family
from asmgen.tools.build import build_kernel
from asmgen.tools.profile_command import ProfileReport, choose_timing, report_kernel

_TABLE_2 = "HipKittens paper, table 2: BF16 GEMM, M = N = K = 8192"
_TABLE_3 = "HipKittens paper, table 3"
_GLUON = "rocm.blogs.amd.com, gluon-gemm-tutorial"


@dataclass(frozen=True)
class Measurement:
    """One row: TFLOPS on a GPU, and the share of time in which the matrix cores of the main loop work where it is known.

    `kernel` is a family of the library, "" where there is none yet; `parameters` are for `asmgen profile -p`.
    """

    source: str
    what: str
    gpu: str
    tflops: float
    matrix_busy: float | None = None
    kernel: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)


_GEMM = {"tile": "256x256x64", "m": "8192", "n": "8192", "k": "8192"}
MEASUREMENTS: tuple[Measurement, ...] = (
    Measurement(_TABLE_2, "4 producers, 8 consumers, 128x256", "MI355X", 893),
    Measurement(_TABLE_2, "4 producers, 12 consumers, 192x256", "MI355X", 1278),
    Measurement(_TABLE_2, "8 consumers, 192x256", "MI355X", 1281),
    Measurement(_TABLE_2, "8 consumers, 256x256", "MI355X", 1610, None, "gemm-bf16", _GEMM | {"schedule": "ping-pong"}),
    Measurement(_TABLE_3, "FP8 GEMM, 8 waves", "MI355X", 3222),
    Measurement(_TABLE_3, "FP8 GEMM, 4 waves", "MI355X", 3327),
    Measurement(_TABLE_3, "attention backward, 8 waves", "MI355X", 894),
    Measurement(_TABLE_3, "attention backward, 4 waves", "MI355X", 1091),
    Measurement(_GLUON, "fp16 GEMM, 256x256x64, 4 waves", "MI355X", 1489, 0.9875, "gemm-bf16",
                _GEMM | {"schedule": "interleave", "dtype": "f16", "out": "f16"}),
    Measurement(_GLUON, "bf8 GEMM, 4 waves", "MI355X", 3257, 0.9972),
    Measurement(_GLUON, "mxfp4 GEMM", "MI355X", 5255, 0.9241),
)
"""Every row; table 2's NVIDIA rows are left out."""


def predict(row: Measurement) -> ProfileReport | None:
    """The prediction for a row; None where no kernel of the library does it yet. Raises AsmgenError for parameters that do not fit."""
    if not row.kernel:
        return None
    library, arch = find_family(row.kernel), GPUS[row.gpu]
    values = library.parse(arch, [f"{name}={value}" for name, value in row.parameters.items()])
    contract = library.contract(arch, values)
    resolved = contract.resolve_run(values)
    built_from = {name: resolved[name] for name in resolved if contract.parameter(name).kind == "build"}
    return report_kernel(library, build_kernel(library, arch, built_from), resolved, choose_timing(arch, row.gpu, None), "grid", 1)


def report(rows: Sequence[Measurement] = MEASUREMENTS) -> str:
    """A line for each row, under its source."""
    lines: list[str] = []
    source = ""
    for row in rows:
        if row.source != source:
            source = row.source
            lines.append(source)
        measured = f"{row.tflops:7.0f} TFLOPS" + (f", matrix cores busy {row.matrix_busy:.2%}" if row.matrix_busy is not None else "")
        lines.append(f"  {row.what:40} {row.gpu}: measured {measured}; {_predicted(row)}")
    return "\n".join(lines) + "\n"


def _predicted(row: Measurement) -> str:
    found = predict(row)
    if found is None:
        return "no kernel yet"
    loop = found.profile.main_loop
    busy = f", matrix cores busy {loop.matrix_busy:.2%}" if loop is not None else ""
    return f"predicted {found.estimate.tflops:.0f} TFLOPS ({found.estimate.tflops / row.tflops - 1:+.1%}){busy}"


@click.command()
@click.option("--arch", type=click.Choice(sorted(ARCHITECTURES)), help="Only GPUs of this architecture.")
def main(arch: str | None) -> None:
    """Print the report."""
    click.echo(report([row for row in MEASUREMENTS if arch in (None, GPUS[row.gpu])]), nl=False)


if __name__ == "__main__":
    main()
