"""`asmgen tune`: which variants serve a problem, their order, what is kept, and what happens to the processes that time them."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from asmgen.author.contract.contract import ContractError
from asmgen.author.family.family import Family
from asmgen.emulator.scheduling.run import Options
from asmgen.isa.errors import AsmgenError
from asmgen.isa.timing import GPUS, timing
from asmgen.kernels import gemm, tuned, whychosen
from asmgen.kernels.figuretables import FigureTable, _code, read_table, write_table
from asmgen.kernels.ownsizes import memory_bounds_its_loop, of_the_problem, with_data_at
from asmgen.kernels.products.split import timed_as
from asmgen.kernels.registry import family
from asmgen.kernels.soonest import Contest, soonest
from asmgen.kernels.tensors import gpu_named
from asmgen.kernels.tuned import Ranking, answer, choose, tune, tune_request
from asmgen.launch.cache import read_checked
from asmgen.launch.emulated import EmulatedDevice
from asmgen.toolchain import ToolError
from asmgen.tools.profile_launches import LaunchesReport, report_kernel
from asmgen.tools.running.build import build_kernel
from asmgen.tools.tune_command import ranking_json, ranking_text
from asmgen.tuning.candidates import Candidate, candidates
from asmgen.tuning.figures import VariantFigures, figures_of, filled_steps, quick_estimates, restored_figures, stored_figures
from asmgen.tuning.ranked import predict_candidate
from asmgen.tuning.rankedvariant import RankedVariant
from tests.tools.test_cli import call, refused

PRODUCT = {"m": 3584, "n": 3584, "k": 4096}
ATTENTION = {"b": 1, "hq": 1, "hkv": 1, "sq": 512, "sk": 512}
SMALL = ("gemm-bf16", "--gpu", "MI300X", "-p", "m=256", "-p", "n=300", "-p", "k=128")


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing was timed, here or in the library."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(tuned, "packaged", lambda kernel, gpu: FigureTable())
    for one in (tuned._figures, tuned.of_library):
        one.cache_clear()
    return tmp_path / "asmgen" / "tuned"


@pytest.mark.parametrize("name,arch,given,tiles", [
    ("gemm-bf16", "gfx942", PRODUCT, ["128x128x64 interleave", "256x256x64 ping-pong", "256x256x64 interleave", "64x64x64 interleave",
                                        "32x32x64 interleave", "32x32x64 in-order", "16x32x64 in-order", "32x64x32 in-order",
                                        "1x2x1024 dot-products", "1x4x512 dot-products", "1x4x1024 dot-products", "4x4x512 dot-products",
                                        "4x8x512 dot-products"]),
    ("gemm-bf16", "gfx942", {**PRODUCT, "schedule": "interleave", "b_layout": "column"},
     ["128x128x64 interleave", "256x256x64 interleave", "64x64x64 interleave", "32x32x64 interleave"]),
    # What a variant computes is not chosen: blocks of scales, and columns of a head.
    ("gemm-fp8", "gfx950", {**PRODUCT, "scales": "block"}, ["128x256x128 ping-pong", "256x128x128 ping-pong",
                                                           "16x32x128 in-order", "32x64x128 in-order"]),
    ("attention-forward", "gfx942", ATTENTION, ["256x32 ping-pong"]),
    ("attention-forward", "gfx942", {**ATTENTION, "d": 64}, ["256x64 ping-pong"]),
    ("attention-forward", "gfx950", ATTENTION, ["256x64 ping-pong", "256x64 interleave"])])
def test_variants_that_compute_the_same_serve(name: str, arch: str, given: dict[str, Any], tiles: list[str]) -> None:
    found = candidates(family(name), arch, given)
    assert [f"{one.chosen['tile']} {one.chosen['schedule']}" for one in found] == tiles
    assert all(one.parameters[name] == value for one in found for name, value in given.items())


def test_what_no_variant_serves_is_refused() -> None:
    with pytest.raises(ContractError, match="needs k"):
        candidates(family("gemm-bf16"), "gfx950", {"m": 3, "n": 4})
    with pytest.raises(ContractError, match="k must be .* got 63"):
        candidates(family("gemm-mx"), "gfx950", {"m": 3, "n": 4, "k": 63})
    with pytest.raises(ContractError, match="has no variant tile=3x3x3"):
        candidates(family("gemm-bf16"), "gfx950", {**PRODUCT, "tile": "3x3x3"})


def test_a_refusal_is_of_a_variant_that_has_what_is_asked() -> None:
    """The last resort, and the first variant, have no scales of blocks; gfx942 has none with them."""
    library, given = family("gemm-fp8"), {"m": 7, "n": 9, "k": 130, "scales": "block"}
    with pytest.raises(ContractError, match="lda must be a multiple of 16, got 130"):
        candidates(library, "gfx950", given)
    with pytest.raises(ContractError, match="ldd must be"):
        candidates(library, "gfx950", {**given, "scales": "row", "ldd": 3})
    with pytest.raises(ContractError, match="scales must be tensor or row, got 'block'"):
        candidates(library, "gfx942", given)


@pytest.mark.slow
@pytest.mark.parametrize("name,given,first,rows,schedules", [
    ("gemm-bf16", {"m": 1}, "1x4x1024 dot-products", {1}, {"in-order"}),
    ("gemm-bf16", {"m": 4}, "1x4x1024 dot-products", {1, 4}, {"in-order"}),
    ("gemm-bf16", {"m": 5}, "16x16x64 in-order", {1, 4}, set()),
    ("gemm-bf16", {"m": 1, "b_layout": "column"}, "16x32x64 in-order", set(), set()),
    ("gemm-fp8", {"m": 2}, "1x4x1024 dot-products", {1, 4}, {"in-order"}),
    ("norm", {"rows": 3, "columns": 64}, "", set(), set())])
def test_more_rows_than_the_problem_has_are_worth_nothing(name: str, given: dict[str, Any], first: str, rows: set[int],
                                                          schedules: set[str]) -> None:
    """Where tiles of a few rows serve, those alone of the schedules that are judged by launches of whole tiles."""
    library = family(name)
    serving = candidates(library, "gfx950", given if name == "norm" else {"n": 8192, "k": 8192, **given})
    variants = [library.select("gfx950", one.build) for one in tuned._worthwhile(library, "gfx950", serving)]
    assert {one.tile[0] for one in variants if one.schedule == "dot-products"} == rows
    assert not schedules & {one.schedule for one in variants}
    assert not first or first in {"x".join(map(str, one.tile)) + " " + one.schedule for one in variants}


def test_a_last_resort_serves_where_nothing_else_does_whichever_is_declared_first() -> None:
    library = family("gemm-fp8")
    for shape, alone in ({"m": 300, "n": 512, "k": 512}, False), ({"m": 300, "n": 512, "k": 513}, True):
        served = [one.build["schedule"] for one in tuned._worthwhile(library, "gfx942", candidates(library, "gfx942", shape))]
        assert (set(served) == {"elements"}) == alone and ("elements" in served) == alone


def test_the_soonest_is_found_without_judging_what_cannot_be_it() -> None:
    seconds, bounds = [5.0, 3.0, 9.0, 3.0, 3.5], [1.0, 2.0, 4.0, 3.0, 3.25]
    judged: list[int] = []

    def judge(number: int) -> float:
        judged.append(number)
        return seconds[number]

    assert soonest(5, (lambda _: 0.0, bounds.__getitem__), judge) == 1
    assert sorted(judged) == [0, 1, 3], "an equal bound is judged, because it may be the first of equals"


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "gpu", "shape"), [("gemm-bf16", "MI300X", (64, 256, 1024)), ("gemm-fp8", "MI300X", (1, 1024, 4096))])
def test_the_choice_is_the_first_of_all_estimates(kernel: str, gpu: str, shape: tuple[int, int, int]) -> None:
    """No bound is above its estimate, so what is not judged cannot be the fastest. On gfx942 no product of fp8 loads single elements."""
    arch, given = GPUS[gpu], dict(zip("mnk", shape, strict=True))
    judge, found = tuned.contest(kernel, arch, gpu, given), tuned.estimated(kernel, arch, gpu, given)
    assert isinstance(judge, Contest) and len(found) == len(judge.candidates) > 8
    chosen = tuned.choice(kernel, arch, gpu, given)
    assert (chosen.build, chosen.seconds) == (found[0].build, found[0].seconds) and chosen.build["schedule"] != "elements"
    for number, one in enumerate(judge.candidates):
        seconds = next(row.seconds for row in found if row.build == one.build)
        assert 0 < judge.dispatch(number) < seconds and 0 < judge.computing(number) < seconds


@pytest.mark.slow
def test_a_ranking_is_what_profile_predicts_and_is_kept(objdump: tuple[str, ...], empty_cache: Path,
                                                        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    given = {"m": 256, "n": 300, "k": 128, "schedule": "in-order"}
    rows = json.loads(call(capsys, "tune", *SMALL, "-p", "schedule=in-order", "--json")[1])
    assert [row["seconds_predicted"] for row in rows] == sorted(row["seconds_predicted"] for row in rows) and len(rows) == 9
    assert sum("split_k" in row["parameters"] for row in rows) == 3  # each with all steps of K apart
    assert all(row["predicted"] is True and row["limit"] and row["gpu"] == "MI300X" for row in rows)
    chosen = [text for name, value in rows[1]["parameters"].items() for text in ("-p", f"{name}={value}")]
    profiled = json.loads(call(capsys, "profile", "gemm-bf16", "--arch", "gfx942", *chosen, "--json")[1])
    for name in ("seconds_predicted", "limit", "kernel", "workgroups"):
        assert rows[1][name] == profiled[name], name
    assert rows[1]["tflops_predicted"] == pytest.approx(profiled["tflops_predicted"], rel=1e-15)  # of two kernels: summed in another order
    kept = {path: path.read_bytes() for path in empty_cache.iterdir()}
    assert len(kept) == 2  # by the request's text, and by its values

    def none(*_: object, **__: object) -> None:
        raise AssertionError("a kept ranking starts no process")

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", none)
        again = tune_request("gemm-bf16", None, "MI300X", [f"{name}={value}" for name, value in given.items()])
        assert [row.as_json()["seconds_predicted"] for row in again.rows] == [row["seconds_predicted"] for row in rows]
        assert tune("gemm-bf16", "gfx942", "MI300X", dict(reversed(given.items()))) == again
        patch.setattr(tuned, "source_digest", lambda rooms: "another asmgen")
        with pytest.raises(AssertionError, match="starts no process"):
            tune("gemm-bf16", "gfx942", "MI300X", given)


def test_a_ranking_loads_no_kernel_once_it_is_kept(objdump: tuple[str, ...], empty_cache: Path) -> None:
    """That is what takes the time: 0.3 s of 0.4."""
    request = ["01-vector-add", None, None, ["n=512"]]
    tune_request("01-vector-add", None, None, ["n=512"])
    code = (f"import sys; from asmgen.kernels.tuned import tune_request; from asmgen.tools.tune_command import ranking_text; "
            f"print(ranking_text(tune_request(*{request!r}), 1)); print(*sys.modules)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    assert "1 variant, predicted" in done[0] and "GB/s" in done[1]
    assert not {"numpy", "asmgen.author.family.family", "asmgen.emulator", "asmgen.model"} & set(done[-1].split())


def test_requests_that_mean_nothing(empty_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, sentence in ((("gemm-bf16", "-p", "m=8"), "needs n"), (("gemm-bf16", "--gpu", "H100"), "H100"),
                                (("no-kernel",), "no-kernel"), (("gemm-bf16", "--why", "--schedule"), "two requests"),
                                (("gemm-bf16", "--gpu", "MI300X", "--arch", "gfx950"), "is no GPU of gfx950")):
        assert sentence in refused(capsys, "tune", *arguments)
    assert not empty_cache.exists()


def test_a_worker_that_ends_and_one_that_refuses(monkeypatch: pytest.MonkeyPatch, empty_cache: Path) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1}, raising=False)
    with pytest.raises(AsmgenError, match="process that times gemm-bf16 has ended"):
        tune("gemm-bf16", "gfx942", "MI300X", {"m": 256, "n": 300, "k": 128})
    replies = io.StringIO()
    request = {"what": "row", "name": "gemm-mx", "arch": "gfx950", "gpu": "MI355X", "given": {"m": 1, "n": 1, "k": 63}}
    answer(io.StringIO(json.dumps(request) + "\n"), replies)
    assert "got 63" in json.loads(replies.getvalue())["error"]


def row_of(tile: str, seconds: float, fast: float, slow: float) -> RankedVariant:
    return RankedVariant({"m": 7, "tile": tile}, f"k_{tile}", seconds, 100.0, 5.0, "latency", 1800.0, 4, 1, fast, slow,
                         {"all fast": fast, "all slow": slow})


def test_a_ranking_as_text_and_json() -> None:
    rows = (row_of("64x64", 1e-5, 9e-6, 3e-5), row_of("128x64", 2e-5, 1e-5, 4e-5), row_of("256x64", 3e-5, 2e-5, 2.5e-5))
    found = Ranking("k", "gfx950", "MI355X", rows)
    lines = ranking_text(found, 9).splitlines()
    assert lines[0] == "k on MI355X (gfx950): 3 variants, predicted, not measured; times of the device"
    assert lines[1].split()[:6] == ["tile=64x64", "10.0", "us", "(9.0", "to", "30.0)"]
    assert "2.00 x    limit latency; 4 workgroups in 1 round" in lines[2] and "3.00 x ?  limit" in lines[3]
    assert lines[4].startswith("  ?: within the ranges")
    document = ranking_json(found, 2)
    assert [(one["parameters"]["tile"], one["sure"]) for one in document] == [("64x64", False), ("128x64", True)]
    assert (document[1]["low"], document[1]["high"]) == (1e-5, 4e-5)
    assert (document[1]["tflops_low"], document[1]["tflops_high"]) == pytest.approx((50, 200))
    assert len(ranking_text(found, 1).splitlines()) == 2


def test_an_order_that_the_ranges_leave_open() -> None:
    """Two are told apart where one is the faster with the table and in every setting that both have."""
    fast = row_of("a", 1e-5, 9e-6, 2e-5)
    assert fast.differs_from(row_of("b", 2e-5, 1e-5, 2.1e-5)) and row_of("b", 2e-5, 1e-5, 2.1e-5).differs_from(fast)
    assert not fast.differs_from(row_of("b", 2e-5, 8e-6, 3e-5)) and not fast.differs_from(row_of("b", 2e-5, 1e-5, 1.9e-5))
    assert not fast.differs_from(fast)



def test_a_ranking_that_is_kept_chooses(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is timed for it; the same sizes with another stride have no ranking."""
    given = {"m": 256, "n": 300, "k": 128}
    row = RankedVariant({**given, "tile": "256x256x64", "schedule": "interleave"}, "k", 1e-5, 1.0, 1.0, "matrix", 1.0, 1, 1)
    monkeypatch.setattr(tuned, "_done", lambda jobs, done: [row.stored()] * len(jobs))
    tune("gemm-bf16", "gfx942", "MI300X", given)

    def none(*_: object) -> None:
        raise AssertionError("a variant is timed")

    monkeypatch.setattr(tuned, "_done", none)
    build = choose("gemm-bf16", "gfx942", "MI300X", given)
    assert (build["tile"], build["schedule"], build["dtype"]) == ("256x256x64", "interleave", "bf16")
    with pytest.raises(AssertionError, match="a variant is timed"):
        choose("gemm-bf16", "gfx942", "MI300X", {**given, "lda": 256})


def test_without_an_assembler_the_family_chooses(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise ToolError("no assembler")

    monkeypatch.setattr("asmgen.toolchain.find_toolchain", missing)
    assert choose("gemm-bf16", "gfx942", "MI300X", {"m": 4096, "n": 4096, "k": 128})["tile"] == "128x128x64"


@pytest.mark.slow
def test_figures_of_a_typical_launch_give_the_times_of_others(objdump: tuple[str, ...]) -> None:
    """Large launches, and those of fewer steps than the timed one, within 10 % of what is predicted when each is timed by itself; the
    figures survive JSON."""
    library, table = family("gemm-bf16"), timing("MI300X")
    variant = {"tile": "128x128x64", "schedule": "interleave"}
    (typical,) = candidates(library, "gfx942", {**library.typical, **variant})
    (figures,) = figures_of(library, "gfx942", table, typical)
    assert restored_figures(json.loads(json.dumps(stored_figures(figures))), table) == figures
    for shape in (dict(library.typical), {"m": 3000, "n": 5000, "k": 640}):
        (one,) = candidates(library, "gfx942", {**shape, **variant})
        (quick,), whole = quick_estimates(library, "gfx942", table, one, [figures]), predict_candidate(library, "gfx942", table, one)
        assert quick.seconds == pytest.approx(whole.seconds, rel=0.1) and quick.rounds == whole.rounds
        assert quick.workgroups == whole.workgroups and quick.tflops == pytest.approx(whole.tflops, rel=0.1)


@pytest.mark.slow
def test_tensors_get_the_variant_that_is_predicted_fastest(objdump: tuple[str, ...], empty_cache: Path,
                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two variants, with and without K split in four: 64 rows want small tiles, and those want to be shared where K is long; 4096 rows
    want larger ones. What was timed once serves all sizes."""
    def some(library: Family, arch: str, given: dict[str, Any], units: int = 0) -> list[Candidate]:
        return [one for one in candidates(library, arch, given, units) if one.build["tile"] in ("64x64x64", "128x128x64")
                and (one.build["split_k"], one.build["preload"]) in ((1, False), (4, True))]

    monkeypatch.setattr("asmgen.tuning.candidates.candidates", some)
    device = EmulatedDevice("gfx950", Options(checks=False))
    a, b = (np.full((rows, 64), 1, ml_dtypes.bfloat16) for rows in (64, 320))
    assert (np.asarray(gemm.bf16(a, b, device=device), np.float32) == 64).all()
    assert device.launches[-1].program is not None and "64x64x64" in device.launches[-1].program.name
    kept = sorted(empty_cache.iterdir())
    assert len(kept) == 2 and {len(json.loads(read_checked(path) or b"")) for path in kept} == {1}
    long = choose("gemm-bf16", "gfx950", "MI355X", {"m": 64, "n": 4096, "k": 4096})
    assert (long["tile"], long["split_k"]) == ("64x64x64", 4)
    more = sorted(empty_cache.iterdir())
    assert len(more) == 3 and {len(json.loads(read_checked(path) or b"")) for path in set(more) - set(kept)} == {2}  # two kernels
    assert choose("gemm-bf16", "gfx950", "MI355X", {"m": 3584, "n": 3584, "k": 4096})["tile"] == "128x128x64"
    assert choose("gemm-bf16", "gfx950", "MI355X", {"m": 64, "n": 4096, "k": 6144})["split_k"] == 4
    assert sorted(empty_cache.iterdir()) == more


@pytest.mark.parametrize(("shape", "splits"), [
    ((64, 64 * 16, 64 * 64), [1, 2, 16, 32]),  # 16 tiles on 256 units: once and twice; 2 as an invariant product has
    ((64, 64 * 100, 64 * 64), [1, 2, 5]),  # 100 tiles: 2 parts fill 200 units, 5 parts 500
    ((64, 64 * 16, 64 * 9), [1, 9]),  # 9 steps are no more than 9 parts
    ((64, 64 * 16, 64 * 17), [1, 9, 17]),  # 16 parts would have 2 steps each, as 9 have
    ((64, 64 * 4, 64 * 640), [1, 26, 59]),  # 60 parts are the most, of 11 steps each; 59 have no more; 26 have 1536 columns
    ((4096, 4096, 8192), [1, 4]),  # as an invariant product has: of 1792 columns and more
])
def test_parts_that_fill_the_gpu_are_tried(shape: tuple[int, int, int], splits: list[int]) -> None:
    given = dict(zip("mnk", shape, strict=True)) | {"tile": "64x64x64"}
    tried = [one.build for one in candidates(family("gemm-bf16"), "gfx950", given, 256)]
    assert list(dict.fromkeys(build["split_k"] for build in tried)) == splits
    assert [build["preload"] for build in tried if build["split_k"] == 1] == [False] + [True] * (shape[0] == 64)  # of one round
    assert [one.build["split_k"] for one in candidates(family("gemm-bf16"), "gfx950", given)] == [1]
    assert {one.build["split_k"] for one in candidates(family("gemm-bf16"), "gfx950", given | {"split_k": 3}, 256)} == {3}
    assert {one.build["preload"] for one in candidates(family("gemm-bf16"), "gfx950", given | {"preload": False}, 256)} == {False}


@pytest.mark.slow
def test_times_of_a_split_product_are_those_of_both_kernels(objdump: tuple[str, ...]) -> None:
    """A row is the sum of what profile says of each; few builds stand for all numbers of parts."""
    library, table = family("gemm-bf16"), timing("MI355X")
    given = {"m": 16, "n": 512, "k": 4096, "tile": "64x64x64", "split_k": 8}
    (one,) = candidates(library, "gfx950", given)
    row = predict_candidate(library, "gfx950", table, one)
    report = report_kernel(library, build_kernel(library, "gfx950", one.build), one.parameters, table, "grid", 1)
    assert isinstance(report, LaunchesReport) and row.seconds == pytest.approx(report.seconds) and row.low < row.seconds < row.high
    assert row.tflops == pytest.approx(2e-12 * 16 * 512 * 4096 / row.seconds)
    assert row.workgroups == 8 * 8 and row.kernel == report.reports[0].name
    near = [timed_as({"split_k": split})["split_k"] for split in (1, 2, 3, 5, 6, 11, 12, 60)]
    assert near == [1, 2, 4, 4, 8, 8, 16, 32]


def test_a_device_is_timed_by_its_own_table() -> None:
    assert gpu_named("AMD Instinct MI325X", "gfx942") == "MI325X" and gpu_named("emulator", "gfx950") == "MI355X"
    assert gpu_named("AMD Instinct MI325X", "gfx950") == "MI355X"


def test_figures_of_the_library_choose_whoever_made_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is timed where they are known; those of another model are remarked on. A file that is no table counts as none."""
    for text in ("", "[]", '{"table": 1}', '{"table": "", "engine": "", "builds": {"x": 3}}'):
        (tmp_path / "k-MI355X.json").write_text(text)
        assert read_table(tmp_path / "k-MI355X.json") == FigureTable()
    plain, noted = "def f(x):\n    return x", "def f(x):\n    \"What it is.\"\n    return x  # as it came"
    assert _code(plain) == _code(noted) != _code(plain.replace("return x", "return -x"))
    figures = [{"of": "a launch"}]
    library, given = family("gemm-bf16"), {"m": 256, "n": 300, "k": 128}
    builds = {tuned.timed_key(library, one.build): one.build for one in candidates(library, "gfx942", given, 304)}
    table = FigureTable("other", "other", {
        key: {"object": "", "problem": tuned.typical_problem(library, "gfx942", build), "figures": figures}
        for key, build in builds.items()})
    write_table(tmp_path / "t.json", table)
    assert read_table(tmp_path / "t.json") == table
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for module in (tuned, whychosen):
        monkeypatch.setattr(module, "packaged", lambda kernel, gpu: table)
    monkeypatch.setattr(tuned, "timed_anew", lambda kernel, arch, gpu, missing: [(key, {"figures": "timed"}) for key in missing])
    keys = tuple(table.builds)
    assert set(tuned._figures("gemm-bf16", "gfx942", "MI300X", keys).values()) == {"timed"}, "no figures of today's model"
    for one in (tuned._figures, tuned.of_library):
        one.cache_clear()
    launch = SimpleNamespace(seconds=1e-6, limit="hbm", parts={"hbm": 1e-6}, workgroups=2, rounds=1, clock=2100.0)
    monkeypatch.setattr("asmgen.tuning.figures.restored_figures", lambda document, timing: document)
    monkeypatch.setattr(Contest, "estimates", lambda contest, number: (launch,) * len(contest.figures[number]))
    found = whychosen.why("gemm-bf16", "gfx942", "MI300X", given)
    assert found.packaged == len(found.rows) > 5 and "made by another model" in found.remark
    assert "us, limit hbm; 2 workgroups in 1 round at 2100 MHz" in found.text(3) and len(found.as_json(3)["variants"]) == 3
    for one in (tuned._figures, tuned.of_library):
        one.cache_clear()
    other = replace(table, builds={key: {**one, "problem": {"m": 1}} for key, one in table.builds.items()})
    monkeypatch.setattr(tuned, "packaged", lambda kernel, gpu: other)
    assert not tuned.of_library("gemm-bf16", "MI300X"), "figures of a launch of other sizes"
    for one in (tuned._figures, tuned.of_library):
        one.cache_clear()


def test_the_last_step_of_a_product_loads_what_there_is_of_it() -> None:
    """Tiles of 1024 of K: 1536 are a step and a half, by bytes and by what a compute unit gets of far memory."""
    for k, share in ((4096, 1), (1536, 0.75), (1025, 1025 / 2048)):
        assert filled_steps({"tile": "1x4x1024", "k": k}) == pytest.approx(share)
    assert filled_steps({"tile": "256x64", "k": 100}) == filled_steps({"columns": 512}) == 1
    table, (build,) = timing("MI355X"), [json.loads(key) for key in tuned.of_library("gemm-bf16", "MI355X")
                                         if '"1x4x1024"' in key and '"preload": true' in key and '"bias": "none"' in key][:1]
    library, figures = family("gemm-bf16"), tuned.of_library("gemm-bf16", "MI355X")[json.dumps(build, sort_keys=True)]
    whole, part = (quick_estimates(library, "gfx950", table, one, [restored_figures(each, table) for each in figures])[0]
                   for k in (2048, 1536) for one in candidates(library, "gfx950", {"m": 1, "n": 24576, "k": k, **build}))
    assert whole.traffic is not None and part.traffic is not None
    assert part.traffic.hbm == pytest.approx(0.75 * whole.traffic.hbm, rel=1e-3) and whole.limit == part.limit == "hbm"
    assert part.traffic.hbm == pytest.approx(2 * 1536 * 24577, rel=0.01) and part.seconds < 0.85 * whole.seconds


def test_rows_that_a_tile_has_beyond_the_problem_load_nothing() -> None:
    its = _library_figures("128x128x64", "interleave")
    a, b = its.moved.loaded[:2]
    for m, n, loaded in ((128, 128, [a, b]), (300, 4096, [a, b]), (64, 4096, [a / 2, b]), (1, 64, [a / 128, b / 2])):
        found = of_the_problem(its, {"tile": "128x128x64", "m": m, "n": n})
        assert found.moved.loaded[:2] == pytest.approx(loaded) and found.run.load is not None and its.run.load is not None
        share = found.run.load.in_flight(found.run.timing) / its.run.load.in_flight(found.run.timing)
        assert share == pytest.approx(sum(loaded) / (a + b))
    assert of_the_problem(its, {"rows": 3}) == its


def test_a_loop_that_memory_bounds_goes_by_its_bound() -> None:
    """By round trips, or by what comes back in a clk, in both directions, and no faster than it issues what else it has."""
    its = _library_figures("64x64x64", "interleave")
    assert memory_bounds_its_loop(its) and not memory_bounds_its_loop(_library_figures("256x256x64", "ping-pong"))
    far, timed = its.run.far, its.run.main_loop
    assert timed is not None and timed.bounds.verdict == "latency"
    least = timed.cycles - timed.stalls["wait vm"]
    for trips, rate, clk in ((2.0, 1.0, 2 * timed.cycles), (0.95, 1.0, 0.95 * timed.cycles), (0.01, 100.0, least),
                             (1.0, 0.1, timed.cycles * 10 * 65536 / far.rate / timed.bounds.memory)):
        found = with_data_at(its, replace(far, rate=far.rate * rate, usual=far.usual * trips, by_argument={
            number: trip * trips for number, trip in far.by_argument.items()}), its).run
        loop = found.main_loop
        assert loop is not None and loop.cycles == pytest.approx(clk, rel=1e-4)
        steps, in_a_round = its.run.flops / (2 * 64 ** 3), timed.flops / (2 * 64 ** 3)
        assert found.cycles - its.run.cycles == pytest.approx(steps / in_a_round * (loop.cycles - timed.cycles))
        assert loop.total - timed.total == pytest.approx(timed.total / timed.cycles * (loop.cycles - timed.cycles))
        assert found.matrix_busy * found.cycles == pytest.approx(its.run.matrix_busy * its.run.cycles)


def test_a_loop_of_fewer_rows_goes_by_the_bound_of_a_whole_tile() -> None:
    """With a 32nd of A, and each byte from as much farther, a loop that bandwidth bounds takes as long as before."""
    its = _library_figures("32x32x64", "interleave")
    row, loop = of_the_problem(its, {"tile": "32x32x64", "m": 1, "n": 32768}), its.run.main_loop
    assert loop is not None and memory_bounds_its_loop(its)
    slow, share = replace(its.run.far, rate=0.1), sum(row.moved.loaded) / sum(its.moved.loaded)
    whole, part = (with_data_at(one, far, its).run.main_loop for one, far in ((its, slow), (row, replace(slow, rate=0.1 * share))))
    assert whole is not None and part is not None and share < 0.6
    assert part.cycles == pytest.approx(whole.cycles) and whole.cycles > loop.cycles


def _library_figures(tile: str, schedule: str) -> VariantFigures:
    """Of a launch on MI355X that the library has figures of."""
    known = tuned.of_library("gemm-bf16", "MI355X")
    wanted = {"tile": tile, "schedule": schedule, "split_k": 1}
    key = next(key for key in known if (build := json.loads(key)) == build | wanted and not build.get("persistent"))
    return restored_figures(known[key][0], timing("MI355X"))
