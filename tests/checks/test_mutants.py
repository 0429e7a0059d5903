"""The mutation tool: it makes every mutant, sees what it is told, and finds no survivor in the library."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest

from asmgen.author.emit.builder import Builder
from asmgen.checks.finding.finding import LintFinding
from asmgen.checks.mutants.mutants import MISSING, Judge, Mutant, mutants
from asmgen.checks.waits.verify import Verifier, verify
from asmgen.isa.operands import OFF
from asmgen.isa.registers import s, v
from asmgen.kernels.registry import family
from asmgen.program.program import Program
from asmgen.reader.instruction import parse_instruction
from asmgen.tools import mutantruns, mutate
from asmgen.tools.mutantruns import Runs
from asmgen.tools.running.build import build_kernel


def sample() -> Program:
    k = Builder("k", "gfx950")
    k.global_load_dword(v[10], v[0:1], OFF)
    k.ds_read_b32(v[11], v[0])
    k.s_waitcnt(vmcnt=0, lgkmcnt=0)
    k.s_barrier()
    k.v_add_u32(v[12], v[10], v[11])
    k.v_mov_b32(v[13], 0)
    k.v_readfirstlane_b32(s[4], v[12])
    k.s_nop(4)
    k.buffer_load_dword(v[1], v[0], s[4:7], 0, offen=True)
    k.s_endpgm()
    return k.program()


def test_every_mutant_is_made() -> None:
    assert [(mutant.kind, mutant.change) for mutant in mutants(sample())] == [
        ("wait", "s_waitcnt vmcnt(0) lgkmcnt(0) deleted"),
        ("count", "vmcnt(0) of s_waitcnt vmcnt(0) lgkmcnt(0) deleted"), ("count", "s_waitcnt vmcnt(0) lgkmcnt(0) with vmcnt(1)"),
        ("count", "lgkmcnt(0) of s_waitcnt vmcnt(0) lgkmcnt(0) deleted"), ("count", "s_waitcnt vmcnt(0) lgkmcnt(0) with lgkmcnt(1)"),
        ("barrier", "s_barrier deleted"), ("nop", "s_nop 4 deleted"), ("nop", "s_nop 4 made s_nop 3")]
    assert [len(mutant.program) - len(sample()) for mutant in mutants(sample())] == [-1, 0, 0, 0, 0, -1, -1, 0]


def swizzled() -> Program:
    k = Builder("k", "gfx950")
    k.v_xor_b32(v[1], v[0], v[2])
    k.v_xor_b32(v[3], 64, v[1])
    k.v_xor_b32(v[4], v[0], v[2])
    k.ds_write_b32(v[1], v[4])
    k.ds_read_b32(v[5], v[3])
    k.s_endpgm()
    return k.program()


def test_swizzles_are_undone_one_by_one_and_all_at_once() -> None:
    """What is exclusive-ored as data is none."""
    found = [mutant for mutant in mutants(swizzled()) if mutant.kind == "swizzle"]
    assert [mutant.change for mutant in found] == [
        "v_xor_b32 v1, v0, v2 made v_mov_b32 v1, v0", "v_xor_b32 v3, 64, v1 made v_mov_b32 v3, v1", "all 2 v_xor_b32 of addresses undone"]
    assert [item.name for item in found[-1].program.instructions] == [
        "v_mov_b32", "v_mov_b32", "v_xor_b32", "ds_write_b32", "ds_read_b32", "s_endpgm"]
    assert not any(Judge(swizzled()).notices(mutant) for mutant in found)


def test_the_judge_counts_only_what_a_mutant_adds() -> None:
    """The barrier serves nothing that anybody names, so deleting it goes unnoticed; every other mutant is noticed."""
    judge = Judge(sample())
    assert [mutant.kind for mutant in mutants(sample()) if not judge.notices(mutant)] == ["barrier"]


@pytest.mark.parametrize(("build", "every"), [({}, 9), ({"schedule": "ping-pong"}, 17), ({"schedule": "producer-consumer"}, 5)])
def test_the_judge_looks_where_a_mutant_may_matter_and_finds_what_is_found_everywhere(build: dict[str, str], every: int) -> None:
    """In a tenth of the time; barriers of roles are judged in the whole program alone."""
    program = family("gemm-bf16").build("gfx950", build).program
    places = {id(instruction): position for position, instruction in enumerate(program.instructions)}
    asked = [mutant for mutant in mutants(program) if mutant.kind in ("wait", "count", "barrier")
             and not (program.roles and mutant.kind == "barrier")][::every]
    assert len(asked) > 5
    for notes in (False, True):
        verifier = Verifier(program, notes)
        before = found_by(verifier.findings())
        for mutant in asked:
            position = places[id(mutant.original)]
            shorter = len(mutant.program) < len(program)
            changed = parse_instruction("s_nop 0", "gfx950") if shorter else mutant.program.instructions[position]
            items = [changed if item is mutant.original else item for item in program.items]
            quickly = found_by(verifier.weakened(program.with_items(items), position))
            assert quickly - before == found_by(verify(mutant.program, notes)) - before, str(mutant)
        assert found_by(verifier.findings()) == before


def found_by(findings: list[LintFinding]) -> set[tuple[str, int, int]]:
    """What is missing, by rule, producer and consumer."""
    return {(finding.rule, id(finding.producer), id(finding.consumer)) for finding in findings if finding.rule in MISSING}


def test_survivors_are_listed_and_the_emulator_is_asked_last() -> None:
    asked: list[str] = []

    def emulates(mutant: Mutant) -> bool:
        asked.append(mutant.kind)
        return False

    found = mutate.score("sample", sample(), emulates)
    assert asked == ["barrier"] and (found.by_lint, found.by_emulator, len(found.survivors)) == (7, 0, 1)
    lines = found.lines()
    assert lines[0].startswith("sample: 7 of 8 found (87.5 %)") and "s_barrier deleted at" in lines[1] and "test_mutants.py" in lines[1]
    assert mutate.score("sample", sample(), lambda mutant: True).by_emulator == 1


def test_builds_are_those_of_every_variant() -> None:
    library = family("gemm-bf16")
    built = list(mutate.builds(library, "gfx950"))
    variants = {(build["tile"], build["schedule"]) for build in built}
    of_all = {"preload": 1, "dtype": 1, "out": 2, "bias": 2, "pointers": 1}
    of_some = {"split_k": 21, "reduce": 21, "a_layout": 16, "b_layout": 19, "invariant": 16, "any_k": 18,
               "any_stride": 4, "persistent": 10, "stream_k": 10}
    assert len(variants) == len(library.variants("gfx950")) > 1
    assert (len({tuple(build.items()) for build in built}) == len(built)
            == (1 + sum(of_all.values())) * len(variants) + sum(of_some.values()))
    assert [build["preload"] for build in built[:2]] == [False, True]


def test_the_emulator_judges_what_lint_lets_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """One wait deleted, which lint would never pass: the emulator alone finds it too, and nothing in the unchanged program."""
    monkeypatch.setattr(mutantruns, "_BARREN", 0)  # the given launches are enough, and quicker
    library = family("gemm-bf16")
    built = build_kernel(library, "gfx942", {})
    program, emulates = built.kernel.program, mutate.on_emulator(library, built)
    deleted = next(mutant for mutant in mutants(program) if mutant.kind == "wait" and "lgkmcnt(3)" in mutant.change)
    assert emulates(deleted)
    assert not emulates(Mutant("wait", "nothing", deleted.original, program))


def test_the_emulator_judges_a_build_with_its_own_data() -> None:
    """Data of another format than the build takes would be wrong whatever a mutant does: runs of the unchanged program pass."""
    library = family("gemm-bf16")
    build = next(build for build in mutate.builds(library, "gfx950") if build["dtype"] == "f16")
    built = build_kernel(library, "gfx950", build)
    assert len(list(islice(Runs(library, built).through(0), 5))) == 5


def test_unknown_kernel_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        mutate.main(["gemm-bf61"])
    assert ended.value.code == 2 and "gemm-bf16" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.needs_objdump
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_nothing_survives(arch: str) -> None:
    library = family("gemm-bf16")
    built = build_kernel(library, arch, {"preload": arch == "gfx950"})
    program = built.kernel.program
    found = mutate.score(arch, program, mutate.on_emulator(library, built))
    assert [str(mutant) for mutant in found.survivors] == []
    placed = Counter(item.name for item in program.instructions)
    assert (found.total["wait"], found.total["barrier"]) == (placed["s_waitcnt"], placed["s_barrier"])
    assert found.total["wait"] > 30 and found.total["barrier"] >= 4 and found.total["swizzle"] > 3
    # Two on gfx942, where stores round without waiting: one that can only be deleted, one that can also be made shorter.
    nops = [item.operands[0] for item in program.instructions if item.name == "s_nop"]
    assert found.total["nop"] == len(nops) + sum(bool(count) for count in nops) > len(nops) > 1
