"""Index mutants: which changes are made of an instruction, that sites are drawn alike, and what becomes of mutants in the library."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import asmgen as ag
from asmgen.author.emit.builder import Builder
from asmgen.checks.mutants.indexmutants import INDEX_KINDS, IndexMutants
from asmgen.isa.operands import OFF
from asmgen.isa.registers import a, s, v
from asmgen.kernels.registry import family
from asmgen.program.program import Program
from asmgen.tools import mutate
from asmgen.tools.indexruns import IndexJudge
from asmgen.tools.mutantruns import Runs
from asmgen.tools.running.build import build_kernel


def sample() -> Program:
    k = Builder("k", "gfx950")
    k.v_lshlrev_b32(v[1], 4, v[0])
    k.v_xor_b32(v[2], 0x30, v[1])
    k.s_mul_i32(s[4], s[2], 24)
    k.v_add_u32(v[3], s[4], v[2])
    k.v_mul_f32(v[4], 2, v[5])  # its constant is data
    k.ds_read_b64(v[6:7], v[3], offset=16)
    k.v_mfma_f32_16x16x16_f16(a[0:3], v[6:7], v[8:9], a[0:3])
    k.v_mfma_f32_16x16x16_f16(a[4:7], v[8:9], v[6:7], a[4:7])
    k.global_store_dword(v[10:11], v[4], OFF)
    k.global_store_dwordx4(v[10:11], a[0:3], OFF)
    k.global_store_dwordx4(v[10:11], a[4:7], OFF)
    k.s_endpgm()
    k.s_nop(3)  # nobody comes here
    k.v_mov_b32(v[12], v[13])
    return k.program()


SAMPLE = sample()
DRAWING = IndexMutants(SAMPLE)


def made(kind: str, name: str) -> set[str]:
    """The mutants of one instruction that many draws give, by what stands there instead."""
    found = [mutant for seed in range(25) for mutant in DRAWING.drawn(99, seed, (kind,)) if mutant.original.name == name]
    assert all(mutant.kind == kind and mutant.original.text in mutant.change and "test_index_mutants.py" in str(mutant) for mutant in found)
    items = SAMPLE.instructions
    changed = [[new.text for old, new in zip(items, mutant.program.instructions, strict=True) if old.text != new.text] for mutant in found]
    assert all(len(texts) == 1 for texts in changed)
    return {text for texts in changed for text in texts}


@pytest.mark.parametrize(("kind", "name", "texts"), [
    ("element", "ds_read_b64", {"ds_read_b64 v[6:7], v3 offset:24", "ds_read_b64 v[6:7], v3 offset:8"}),
    ("element", "v_add_u32", set()),
    ("stride", "v_lshlrev_b32", {"v_lshlrev_b32 v1, 5, v0", "v_lshlrev_b32 v1, 3, v0"}),
    ("stride", "s_mul_i32", {"s_mul_i32 s4, s2, 48", "s_mul_i32 s4, s2, 32", "s_mul_i32 s4, s2, 16"}),
    ("swizzle constant", "v_xor_b32", {"v_xor_b32 v2, 32, v1", "v_xor_b32 v2, 16, v1"}),
    ("stride", "v_mul_f32", set()),
])
def test_constants_and_offsets(kind: str, name: str, texts: set[str]) -> None:
    assert made(kind, name) == texts


def test_matrix_operands() -> None:
    """A and B change places, C and D become those of the other matrix instruction."""
    assert made("matrix operands", "v_mfma_f32_16x16x16_f16") == {
        "v_mfma_f32_16x16x16_f16 a[0:3], v[8:9], v[6:7], a[0:3]", "v_mfma_f32_16x16x16_f16 a[4:7], v[6:7], v[8:9], a[4:7]"}
    texts = {mutant.change.rpartition(": ")[2] for seed in range(9) for mutant in DRAWING.drawn(99, seed, ("matrix operands",))}
    assert {text.partition(" made")[0] for text in texts} == {"A and B exchanged", "C and D"}


def test_registers_become_live_ones_of_their_file_and_size() -> None:
    """Before the read of LDS these hold what is wanted later: v3, v4, v8, v9, v10, v11; pairs begin where the old one does."""
    texts = made("register", "ds_read_b64")
    assert texts == {f"ds_read_b64 v[6:7], v{number} offset:16" for number in (4, 8, 9, 10, 11)} \
        | {f"ds_read_b64 v[{number}:{number + 1}], v3 offset:16" for number in (8, 10)}
    assert made("register", "s_mul_i32") == {"s_mul_i32 s2, s2, 24"}  # no other scalar register holds anything


def test_what_nobody_reaches_is_no_site_and_draws_are_alike() -> None:
    every = DRAWING.drawn(99, 0)
    assert len({id(mutant.original) for mutant in every}) == len(every) and "s_nop" not in {mutant.original.name for mutant in every}
    assert {mutant.kind for seed in range(4) for mutant in DRAWING.drawn(99, seed)} == set(INDEX_KINDS)
    first = Counter(DRAWING.drawn(1, seed)[0].original.name for seed in range(200))
    assert len(first) >= 8 and max(first[name] for name in first if "mfma" not in name and "x4" not in name) < 60
    again, same = ([mutant.change for mutant in IndexMutants(SAMPLE).drawn(5, 7)] for _ in range(2))
    assert again == same


def problem(p: ag.Values, seed: int) -> ag.Problem:
    x = np.random.default_rng(seed).integers(1, 99, 128).astype(np.float32)
    return ag.Problem({"x": x, "d": np.zeros(64, np.float32)}, (ag.Output("d", x[:64].astype(float), 1e-3),))


def copying() -> ag.Family:
    """d = x[0:64], with a register that holds the same as another one, and a factor that may be off by what the tolerance takes."""
    made = ag.Family(name="copying", title="d = x", problem=problem,
                     arguments=(ag.ContractArgument("x", "pointer", "x"), ag.ContractArgument("d", "pointer", "d")),
                     parameters=(), grid=ag.GridRule("one workgroup", lambda p, variant: (1, 1, 1)))

    @made.variant("gfx950")
    def copy(k: ag.TileBuilder) -> None:
        at, same, value = (k.registers.vgprs(1, name) for name in ("at", "same", "value"))
        k.v_lshlrev_b32(at, 2, k.work_item)
        k.v_mov_b32(same, at)
        k.global_load_dword(value, at, k.argument("x"))
        k.global_store_dword(same, value, k.argument("d"))
        k.s_endpgm()

    return made


def test_what_becomes_of_mutants() -> None:
    """One that takes the register with the same contents is equivalent, one that reads the neighbour is found."""
    library = copying()
    runs = Runs(library, build_kernel(library, "gfx950", {}))
    judge, load = IndexJudge(runs, 5), next(item for item in runs.program.instructions if item.name == "global_load_dword")
    drawing = IndexMutants(runs.program)
    drawn = [mutant for seed in range(15) for mutant in drawing.drawn(20, seed) if mutant.original is load]
    same = [mutant for mutant in drawn if "vaddr" in mutant.change and "same" not in mutant.change]
    near = [mutant for mutant in drawn if "offset" in mutant.change]
    assert {judge.survives(mutant) for mutant in same} >= {""} and {judge.survives(mutant) for mutant in near} == {None}


def test_a_survivor_is_listed_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    library = copying()
    judge = IndexJudge(Runs(library, build_kernel(library, "gfx950", {})), 2)
    monkeypatch.setattr(judge, "survives", lambda mutant: "other bits within the tolerance" if mutant.kind == "element" else None)
    found = judge.score("copying", 20, 0)
    lines = found.lines()
    assert found.survivors and f"{len(found.survivors)} surviving" in lines[0] and "test_index_mutants.py" in lines[-1]
    assert lines[-1].startswith("  survives: [element] ") and lines[-1].endswith("(other bits within the tolerance)")
    assert found.killed + len(found.survivors) == sum(found.kinds.values())


@pytest.mark.parametrize(("name", "build", "count"), [("03-transpose", {}, 12), ("gemm-bf16", {"tile": "64x64x64"}, 7)])
@pytest.mark.slow_after_first
def test_a_slice_of_the_library_is_found(name: str, build: dict[str, Any], count: int) -> None:
    """`python -m asmgen.tools.mutate --index N` draws more."""
    library = family(name)
    found = IndexJudge(Runs(library, build_kernel(library, "gfx950", build)), 5).score(name, count, 1)
    assert found.killed + len(found.equivalent) == count and found.survivors == [], "\n".join(found.lines())


def test_the_command_takes_a_number_and_a_seed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        mutate.main(["03-transpose", "--arch", "gfx942", "--index", "4", "--seed", "3"])
    assert ended.value.code == 0 and "of 4 index mutants 4 found" in capsys.readouterr().out
