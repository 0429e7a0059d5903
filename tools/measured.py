"""Published measurements beside the model's predictions: `python -m asmgen.tools.measured`; with --products the table of HipKittens' GEMMs
that stands in docs/CYCLE_MODEL.md.

A row names the kernel of the library that does what was measured, with its parameters. Where the library has no such variant the row says
so, and is filled once it has. Nothing in the timing table is fitted to a row: the report shows how far off a prediction is, whatever it
says.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import click

from asmgen.author.contract.contract import ContractError
from asmgen.isa.arch import ARCHITECTURES
from asmgen.isa.timing import GPUS
from asmgen.kernels.registry import family as find_family
from asmgen.kernels.registry import names as family_names
from asmgen.tools.grid_command import grid_report
from asmgen.tools.profile_command import ProfileReport, choose_timing, report_traced, trace_kernel
from asmgen.tools.running.build import build_kernel
from asmgen.tuning.timerange import time_range
from asmgen.tuning.traced import Traced

_TABLE_2 = "HipKittens paper, table 2: BF16 GEMM, M = N = K = 8192"
_TABLE_3 = "HipKittens paper, table 3; the FP8 GEMMs taken as M = N = K = 8192, attention as B 16, H 16, N 8192"
_TABLE_4 = "HipKittens paper, table 4: BF16 GEMM, tile 192x256x64, orders of tiles"
_NO_KERNEL = "no kernel yet"
_PRODUCTS = {_TABLE_2: 2, _TABLE_3: 3, _TABLE_4: 4}
_GLUON = "rocm.blogs.amd.com, gluon-gemm-tutorial; taken as M = N = K = 8192"


@dataclass(frozen=True)
class CacheHits:
    """Hit rates of L2 and of the last-level cache in per cent. `outlier`: the cache model is known to miss it."""

    l2: float
    llc: float
    outlier: bool = False


@dataclass(frozen=True)
class Measurement:
    """One row: TFLOPS on a GPU, and where they are known the share of time in which the matrix cores of the main loop work and cache hits.

    `kernel` is a family of the library, "" where it is not known yet which; `parameters` are for `asmgen profile -p`, those of `more` only
    if the family has them.
    """

    source: str
    what: str
    gpu: str
    tflops: float
    kernel: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, str] = field(default_factory=dict)
    matrix_busy: float | None = None
    hits: CacheHits | None = None


def _gemm(tile: str, schedule: str, edge: int = 8192, **more: str) -> dict[str, str]:
    return {"tile": tile, "schedule": schedule, "m": str(edge), "n": str(edge), "k": str(edge), **more}


def _order(edge: int, window: int, chunk: int, tflops: float, hits: CacheHits) -> Measurement:
    """A row of table 4; windows and chunks of 0 are the row-major order, which a family without the two has anyway."""
    which = {"window": str(window), "chunk": str(chunk)}
    plain = window == chunk == 0
    what = f"{edge}, " + ("row-major" if plain else f"W{window}/C{chunk}")
    return Measurement(_TABLE_4, what, "MI355X", tflops, "gemm-bf16", _gemm("192x256x64", "interleave", edge, **({} if plain else which)),
                       which if plain else {}, hits=hits)


MEASUREMENTS: tuple[Measurement, ...] = (
    Measurement(_TABLE_2, "4 producers, 8 consumers, 128x256", "MI355X", 893, "gemm-bf16", _gemm("128x256x64", "producer-consumer")),
    Measurement(_TABLE_2, "4 producers, 12 consumers, 192x256", "MI355X", 1278, "gemm-bf16", _gemm("192x256x64", "producer-consumer")),
    Measurement(_TABLE_2, "8 consumers, 192x256", "MI355X", 1281, "gemm-bf16", _gemm("192x256x64", "ping-pong")),
    Measurement(_TABLE_2, "8 consumers, 256x256", "MI355X", 1610, "gemm-bf16", _gemm("256x256x64", "ping-pong")),
    Measurement(_TABLE_3, "FP8 GEMM, 8 waves", "MI355X", 3222, "gemm-fp8", _gemm("256x256x128", "ping-pong")),
    Measurement(_TABLE_3, "FP8 GEMM, 4 waves", "MI355X", 3327, "gemm-fp8", _gemm("256x256x128", "interleave")),
    *(Measurement(_TABLE_3, f"attention backward, {waves} waves", "MI355X", tflops, "attention-backward",
                  {"tile": "32x256", "schedule": schedule, "d": "128", "b": "16", "hq": "16", "hkv": "16", "sq": "8192"})
      for waves, tflops, schedule in ((8, 894, "ping-pong"), (4, 1091, "interleave"))),
    _order(9216, 0, 0, 1113, CacheHits(55, 95, outlier=True)),
    _order(9216, 7, 216, 991, CacheHits(79, 24)),
    _order(9216, 5, 25, 1145, CacheHits(75, 93)),
    _order(14592, 0, 0, 900, CacheHits(36, 76)),
    _order(14592, 8, 542, 980, CacheHits(79, 7)),
    _order(14592, 8, 64, 1068, CacheHits(78, 55)),
    Measurement(_GLUON, "fp16 GEMM, 256x256x64, 4 waves", "MI355X", 1489, "gemm-bf16",
                _gemm("256x256x64", "interleave", dtype="f16", out="f16"), matrix_busy=0.9875),
    Measurement(_GLUON, "bf8 GEMM, 4 waves", "MI355X", 3257, "gemm-fp8", _gemm("256x256x128", "interleave", a_dtype="e5m2", b_dtype="e5m2"),
                matrix_busy=0.9972),
    Measurement(_GLUON, "mxfp4 GEMM", "MI355X", 5255, "gemm-mx", _gemm("256x256x256", "interleave"), matrix_busy=0.9241),
)
"""Every row of tables 2, 3 and 4 but table 2's NVIDIA ones, and the three headline results."""

ATTENTION_LENGTHS = (1024, 2048, 4096, 8192, 16384)
_HEADS = ((16, 16), (64, 8))  # of Q and O, of K and V


def trace_row(row: Measurement, k: int = 0) -> Traced | None:
    """What the first workgroup of a row's kernel executes, with another depth where `k` says one; None without such a kernel."""
    if row.kernel not in family_names():
        return None
    library, arch = find_family(row.kernel), GPUS[row.gpu]
    given = dict(row.parameters) | ({"k": str(k)} if k else {})
    try:
        known = {parameter.name for parameter in library.contract(arch).parameters}
        given |= {name: value for name, value in row.more.items() if name in known}
        values = library.parse(arch, [f"{name}={value}" for name, value in given.items()])
        contract = library.contract(arch, values)
        resolved = contract.resolve_run(values)
    except ContractError:
        return None
    built_from = {name: resolved[name] for name in resolved if contract.parameter(name).kind == "build"}
    return trace_kernel(library, build_kernel(library, arch, built_from), resolved, 1)


def predict(row: Measurement, k: int = 0) -> ProfileReport | None:
    """The prediction for a row; None where no kernel of the library does it yet."""
    traced = trace_row(row, k)
    if traced is None:
        return None
    found = report_traced(traced, choose_timing(GPUS[row.gpu], row.gpu, None), "grid", 1)
    return replace(found, range=time_range(traced, found))


def report(rows: Sequence[Measurement] = MEASUREMENTS, k: int = 0) -> str:
    """A line for each row, under its source, and the errors together. `k` replaces the depth of every row."""
    lines: list[str] = []
    errors: list[float] = []
    source = ""
    for row in rows:
        if row.source != source:
            source = row.source
            lines.append(source)
        lines.append(f"  {row.what:36} {row.gpu}: measured {row.tflops:5.0f} TFLOPS{_busy(row.matrix_busy)}; {_predicted(row, k, errors)}")
        if row.hits is not None:
            lines.append(f"    {_hits(row, row.hits)}")
    median = f", median |error| {statistics.median(map(abs, errors)):.1%}" if errors else ""
    lines.append(f"{len(errors)} of {len(rows)} rows have a kernel{median}")
    return "\n".join(lines) + "\n"


def products_table(rows: Sequence[Measurement] = MEASUREMENTS, k: int = 0) -> str:
    """The GEMMs of HipKittens' tables in Markdown: TFLOPS, the range of the predicted ones, and predicted over measured time."""
    lines = ["| table | product | measured | predicted | range | time |", "|---|---|---|---|---|---|"]
    for row in rows:
        if row.source in _PRODUCTS and row.kernel.startswith("gemm"):
            found, cells = predict(row, k), [f"{_PRODUCTS[row.source]}", f"{row.kernel}: {row.what}", f"{row.tflops:.0f}"]
            if found is None:
                cells += [_NO_KERNEL, "", ""]
            else:
                (low, high), whole = found.tflops_range(), found.estimate.tflops
                cells += [f"{whole:.0f}", f"{low:.0f} to {high:.0f}", f"{row.tflops / whole:.3f}"]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def attention_report(lengths: Sequence[int] = ATTENTION_LENGTHS, gpu: str = "MI355X") -> str:
    """Predicted times of attention-forward, B 16, head dimension 128, bf16. TFLOPS count 4 b h n^2 d, and half of that where causal."""
    lines = [f"attention-forward, B 16, d 128, bf16, {gpu}: predicted, not measured; TFLOPS of 4 b h n^2 d, half of it causal"]
    for causal, heads, n, found in attention_rows(lengths, gpu):
        flops = 4 * 16 * heads[0] * n * n * 128 / (2 if causal else 1)
        whole, mask = found.estimate, "causal" if causal else "plain"
        lines.append(f"  H {heads[0]:2}/{heads[1]:<2} N {n:5} {mask:6}: {whole.seconds * 1e6:8.1f} us, "
                     f"{flops / whole.seconds / 1e12:5.0f} TFLOPS, limit {whole.limit}")
    return "\n".join(lines) + "\n"


def attention_rows(lengths: Sequence[int], gpu: str, masks: Sequence[bool] = (False, True)
                   ) -> Iterator[tuple[bool, tuple[int, int], int, ProfileReport]]:
    """Causal or not, heads of Q and of K, queries and keys, and what is predicted. Launches with one first workgroup share its trace."""
    chosen, library = choose_timing(GPUS[gpu], gpu, None), find_family("attention-forward")
    known: dict[str, Traced] = {}
    for causal in masks:
        built = build_kernel(library, GPUS[gpu], {"causal": causal})
        variant = library.select(GPUS[gpu], built.kernel.parameters)
        for (heads, kv_heads), n in itertools.product(_HEADS, lengths):
            shape = {**built.kernel.parameters, "b": 16, "hq": heads, "hkv": kv_heads, "sq": n}
            parameters = library.contract(GPUS[gpu], shape).resolve_run(shape)
            assert library.work is not None
            work = library.work(parameters, variant)
            first = repr(sorted(work.first.items()))  # the same for many launches
            if first not in known:
                known[first] = trace_kernel(library, built, parameters, 1)
            yield causal, (heads, kv_heads), n, report_traced(known[first].standing_for(work), chosen, "grid", 1)


def _busy(share: float | None) -> str:
    return f", matrix cores busy {share:.2%}" if share is not None else ""


def _predicted(row: Measurement, k: int, errors: list[float]) -> str:
    found = predict(row, k)
    if found is None:
        return _NO_KERNEL
    loop, whole = found.profile.main_loop, found.estimate
    errors.append(whole.tflops / row.tflops - 1)
    low, high = found.tflops_range()
    between = f"{low:.0f} to {high:.0f}{'' if low <= row.tflops <= high else ', measured outside'}"
    busy = _busy(loop.matrix_busy if loop is not None else None)
    return f"predicted {whole.tflops:.0f} ({between}; {errors[-1]:+.1%}{busy}, limit {whole.limit})"


def _hits(row: Measurement, hits: CacheHits) -> str:
    """Measured and predicted cache hits; they need no kernel."""
    request = [f"{name}={value}" for name, value in {**row.parameters, **row.more}.items() if name != "schedule"]
    found = grid_report(GPUS[row.gpu], row.gpu, request, False).rates
    known = " (known outlier)" if hits.outlier else ""
    return (f"L2 hits measured {hits.l2:.0f} %, predicted {100 * found.l2_hit:.1f} %{known}; LLC hits measured {hits.llc:.0f} %, predicted "
            f"{100 * found.llc_hit:.1f} %")


@click.command()
@click.option("--arch", type=click.Choice(sorted(ARCHITECTURES)), help="Only GPUs of this architecture.")
@click.option("--k", type=click.IntRange(min=0), default=0,
              help="Another depth for every row: faster, and no longer what was measured; 0 is none.")
@click.option("--products", is_flag=True, help="Instead a table in Markdown of the GEMMs that HipKittens measured.")
def main(arch: str | None, k: int, products: bool) -> None:
    """Print the report."""
    rows = [row for row in MEASUREMENTS if arch in (None, GPUS[row.gpu])]
    if products:
        click.echo(products_table(rows, k), nl=False)
        return
    click.echo(report(rows, k), nl=False)
    if arch in (None, "gfx950"):
        click.echo(attention_report(), nl=False)


if __name__ == "__main__":
    main()
