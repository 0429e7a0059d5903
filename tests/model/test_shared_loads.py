"""Which workgroups load the same: from the first loads of any code, and what a launch specification predicts with it."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from asmgen.emulator.machine.devicememory import Memory
from asmgen.emulator.scheduling.firstloads import FirstLoads, without_rounds
from asmgen.emulator.scheduling.run import Options
from asmgen.emulator.scheduling.trace import TracedArgument, WaveTrace
from asmgen.isa.errors import AsmgenError
from asmgen.kernels.registry import family
from asmgen.model.gridorder import GridOrder
from asmgen.model.sharedloads import shared_loads, tiled_loads
from asmgen.model.steering import idle_arithmetic
from asmgen.reader.assembly import read_text
from asmgen.tools.cli import commands
from asmgen.tools.running.build import build_kernel
from tests.emulator_launch import launch

LOOP = """s_load_dwordx4 s[8:11], s[0:1], 0x0
s_load_dwordx2 s[12:13], s[0:1], 0x10
s_mov_b32 s20, 3
s_lshl_b32 s21, s3, 8
s_lshl_b32 s22, s2, 8
v_lshlrev_b32 v0, 2, v0
v_add_u32 v1, s21, v0
v_add_u32 v2, s22, v0
s_waitcnt lgkmcnt(0)
S:
s_sub_u32 s20, s20, 1
s_cmp_lg_u32 s20, 0
s_cbranch_scc1 S
global_load_dword v3, v1, s[8:9]
s_mov_b32 s20, 5
L:
global_load_dword v4, v2, s[10:11]
v_add_u32 v2, 0x800, v2
s_waitcnt vmcnt(0)
v_add_u32 v5, v3, v4
s_sub_u32 s20, s20, 1
s_cmp_lg_u32 s20, 0
s_cbranch_scc1 L
global_store_dword v1, v5, s[12:13]
s_endpgm
"""
"""Workgroup (x, y) loads 256 bytes of its row y of A, and of its column x of B five times; it stores to D."""


def test_workgroups_end_after_the_first_round_of_a_loop_that_loads() -> None:
    code = read_text(LOOP, "gfx950")[0]
    cut = without_rounds(code)
    changed = [position for position, (one, other) in enumerate(zip(code.instructions, cut.instructions, strict=True)) if one != other]
    assert [code.instructions[position].name for position in changed] == ["s_cbranch_scc1"] and changed[0] > 15
    assert cut.instructions[changed[0]].name == "s_endpgm" and cut.labels == code.labels
    plain = read_text("v_mov_b32 v1, v2\ns_endpgm\n", "gfx950")[0]
    assert without_rounds(plain) is plain


def test_the_first_loads_tell_rows_from_columns() -> None:
    """4 x 2 workgroups; what is stored is no load, and the first round of the loop is the only one."""
    code, memory = read_text(LOOP, "gfx950")[0], Memory()
    sizes = 4096, 16384, 8192
    first = FirstLoads(8, idle=idle_arithmetic)
    data = [np.zeros(size // 4, np.uint32) for size in sizes]
    launch("gfx950", code, (4, 2, 1), (64, 1, 1), data, vgprs=64, options=Options(checks=False, trace=first), memory=memory)
    starts = {interval.end - interval.start: interval.start for interval in memory.intervals}
    assert set(first.lines) == {starts[4096], starts[16384]}
    assert all((lines.counts == 64).all() for lines in first.lines.values())
    arguments = [TracedArgument(str(size), starts[size], size) for size in sizes]
    order = shared_loads(first, arguments, code, [WaveTrace(0, 0, (*range(14), *range(14, 21), *range(14, len(code))), (2,) * 4)])
    assert order is not None and sorted(order.arguments) == [0, 1] and order.steps == 2
    rows, columns = (order.arguments.index(number) for number in (0, 1))
    for (one, here), (other, there) in itertools.combinations(enumerate(order.slabs), 2):
        assert (here[rows] == there[rows]) == (one // 4 == other // 4) and (here[columns] == there[columns]) == (one % 4 == other % 4)
    assert shared_loads(FirstLoads(8), arguments, code, []) is None


def specification(folder: Path, tile: str, more: dict[str, int], **said: Any) -> Path:
    """A launch specification of the library's bf16 product on zeros."""
    library = family("gemm-bf16")
    schedule = "ping-pong" if tile == "256x256x64" else "interleave"
    values = {"tile": tile, "schedule": schedule, **more}
    contract = library.contract("gfx950", values)
    resolved = contract.resolve_run(values)
    built = build_kernel(library, "gfx950", {name: resolved[name] for name in resolved if contract.parameter(name).kind == "build"})
    (folder / "k.co").write_bytes(built.code_object)
    m, n, k = (resolved[name] for name in "mnk")
    numbers = {"m": m, "n": n, "k": k, "lda": k, "ldb": k, "ldd": n, "ldc": n, "alpha": 1.0, "beta": 0.0,
               **{f"{name}_stride_batch": 0 for name in "abdc"}}
    sizes = {"a": 2 * m * k, "b": 2 * n * k, "d": 2 * m * n}
    args = [{"zeros": sizes[row.name]} if row.name in sizes else {"scalar": "u64", "value": 0} if row.type == "pointer"
            else {"scalar": row.type, "value": numbers[row.name]} for row in built.kernel.contract.arguments]
    path = folder / "spec.json"
    path.write_text(json.dumps({"code_object": "k.co", "arch": "gfx950", "grid": list(contract.grid_of(resolved)),
                                "block": list(contract.workgroup), "args": args, **said}))
    return path


def profile(*arguments: str) -> Any:
    done = CliRunner().invoke(commands, ["profile", *arguments, "--json"], catch_exceptions=True)
    return json.loads(done.output) if done.exception is None else done.exception


@pytest.mark.needs_objdump
@pytest.mark.parametrize(("tile", "more"), [
    ("256x256x64", {"m": 4096, "n": 2048, "k": 1024}), ("128x128x64", {"m": 2048, "n": 1000, "k": 512, "window": 3, "chunk": 4}),
    ("64x64x64", {"m": 640, "n": 1024, "k": 512, "window": 4})])
@pytest.mark.slow
def test_a_specification_predicts_what_the_family_does(tmp_path: Path, tile: str, more: dict[str, int]) -> None:
    """The addresses tell the order of tiles, whatever it is."""
    path = specification(tmp_path, tile, more, product={name: more[name] for name in "mnk"})
    found = profile(str(path))
    schedule = "ping-pong" if tile == "256x256x64" else "interleave"
    values = {"tile": tile, "schedule": schedule, **more}
    known = profile("gemm-bf16", "--arch", "gfx950", *(f"-p{name}={value}" for name, value in values.items()))
    assert found["memory"]["by"] == f"the addresses of {found['workgroups']} workgroups" and known["memory"]["by"] == "the order of tiles"
    for name in ("l2_hit", "llc_hit"):
        assert found["memory"][name] == pytest.approx(known["memory"][name], abs=0.02)
    assert found["seconds_predicted"] == pytest.approx(known["seconds_predicted"], rel=0.01)
    assert found["tflops_predicted"] * found["seconds_predicted"] == pytest.approx(2e-12 * more["m"] * more["n"] * more["k"], rel=1e-6)
    assert known["tflops_predicted"] * known["seconds_predicted"] == pytest.approx(2e-12 * more["m"] * more["n"] * more["k"], rel=1e-6)


@pytest.mark.needs_objdump
@pytest.mark.slow
def test_what_is_only_stored_is_not_loaded(tmp_path: Path) -> None:
    """K is short, so that D is most of the bytes: 33.5 MB that no cache is asked for."""
    found = profile(str(specification(tmp_path, "128x128x64", {"m": 4096, "n": 4096, "k": 128})))["memory"]
    assert found["stored_bytes"] == 2 * 4096 * 4096 and found["hbm_bytes"] == 2 * 2 * 4096 * 128
    assert found["llc_bytes"] <= 8 * found["hbm_bytes"]
    assert {row["name"]: (row["loaded"] > 0, row["stored"] > 0) for row in found["arguments"]} == {
        "argument 0": (True, False), "argument 1": (True, False), "argument 2": (False, True)}


@pytest.mark.needs_objdump
@pytest.mark.slow
def test_profile_takes_a_limit_of_memory_and_no_parameters_for_a_specification(tmp_path: Path) -> None:
    path = str(specification(tmp_path, "128x128x64", {"m": 512, "n": 512, "k": 128}))
    for options, words in ((("-p", "m=4"), "takes no -p m=4"), (("--arch", "gfx950"), "takes no --arch"),
                           (("--memory-limit", "100000"), "100000 are the most: --memory-limit 786432")):
        problem = profile(path, *options)
        assert isinstance(problem, AsmgenError) and words in str(problem), options
    shape = ("gemm-bf16", "-p", "m=512", "-p", "n=512", "-p", "k=4096", "--memory-limit")
    assert "--memory-limit" in str(profile(*shape, "1000")) and profile(*shape, "100000000")["workgroups"] == 16


@pytest.mark.needs_objdump
@pytest.mark.slow
def test_a_partition_has_fewer_xcds(tmp_path: Path) -> None:
    """One XCD of 32 units loads each byte of A and B once into its L2."""
    path, overrides = specification(tmp_path, "128x128x64", {"m": 1024, "n": 1024, "k": 512}), tmp_path / "one.json"
    overrides.write_text('{"xcds": 1, "compute_units": 32}')
    whole, part = profile(str(path)), profile(str(path), "--parameters", str(overrides))
    assert part["memory"]["llc_bytes"] == part["memory"]["hbm_bytes"] == 2 * 2 * 1024 * 512 < whole["memory"]["llc_bytes"]
    assert part["seconds_predicted"] > whole["seconds_predicted"] and part["rounds"] == 64 // 32 // part["workgroups_together"]


def test_tiles_that_a_specification_tells() -> None:
    """Rows of tiles, once for each part of K, which has rows and columns of its own."""
    order = tiled_loads((512, 768, 1024), (256, 256, 64), 2, (1, 0), 12)
    assert order is not None and order.arguments == (1, 0) and order.steps == 8
    assert order.slabs == [*GridOrder(2, 3).tiles_in_order(), *((row + 2, column + 3) for row in range(2) for column in range(3))]
    assert tiled_loads((512, 768, 1024), (256, 256, 64), 3, (1, 0), 12) is None
