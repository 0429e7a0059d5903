"""The comparison of all builds with those of another revision: comments may differ, nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from asmgen.author.contract.contract import ContractError
from asmgen.isa.errors import AsmgenError
from asmgen.kernels.registry import family as find_family
from asmgen.tools.samebuilds import WantedBuild, checked_out, compare, difference, requests
from tests.project.test_layers import ROOT

OLD = "; heading\nv_mov_b32 v0, 1  ; why\ns_endpgm\n"


@pytest.mark.parametrize(("text", "code", "told"), [
    (OLD, b"same", ""),
    ("; another heading\n\nv_mov_b32 v0, 1\n  s_endpgm ; the end\n", b"same", ""),
    (OLD.replace("v0", "v1"), b"same", "line 1 without comments is 'v_mov_b32 v1, 1', and was 'v_mov_b32 v0, 1'"),
    (OLD + "s_nop 0\n", b"same", "line 3 without comments is 's_nop 0', and was 'the end'"),
    (OLD, b"other", "the text agrees, the code object does not"),
])
def test_what_tells_builds_apart(tmp_path: Path, text: str, code: bytes, told: str) -> None:
    for name, (assembly, data) in {"old": (OLD, b"same"), "new": (text, code)}.items():
        (tmp_path / f"{name}.s").write_text(assembly)
        (tmp_path / f"{name}.co").write_bytes(data)
    assert difference(tmp_path / "old", tmp_path / "new") == told


def test_every_variant_is_compared() -> None:
    found = [(one.arch, one.parameters["tile"], one.parameters["schedule"]) for one in requests(["gemm-fp8"], choices=False)]
    assert [found.count(("gfx950", "64x64x128", schedule)) for schedule in ("interleave", "in-order")] == [1, 1]
    assert len(list(requests(["gemm-bf16"], choices=True))) > len(list(requests(["gemm-bf16"], choices=False)))


@pytest.mark.slow
def test_every_build_choice_is_compared_once() -> None:
    wanted = [str(one) for one in requests((), choices=True)]
    assert len(set(wanted)) == len(wanted)
    library = find_family("gemm-bf16")
    for arch in library.archs:
        for variant in library.variants(arch):
            contract = library.contract_of(variant)
            for parameter in contract.parameters:
                for choice in parameter.choices or () if parameter.kind == "build" else ():
                    build = contract.resolve_build({}) | {parameter.name: choice}
                    try:
                        contract.resolve_build(build)
                    except ContractError:  # it goes with another choice alone
                        continue
                    assert str(WantedBuild("gemm-bf16", arch, build)) in wanted


def test_a_build_that_fails_is_named(tmp_path: Path) -> None:
    with pytest.raises(AsmgenError, match=r"does not build 01-vector-add gfx906: .*gfx906"):
        list(compare((ROOT, ROOT), [WantedBuild("01-vector-add", "gfx906", {})], tmp_path))


@pytest.mark.slow
def test_two_trees_build_at_once_and_differences_are_told_in_order(tmp_path: Path) -> None:
    """The other tree is this one, with another instruction in one example."""
    other = tmp_path / "other"
    other.mkdir()
    for folder in ("asmgen", "isa", "kernels", "regalloc", "tools"):
        shutil.copytree(ROOT / folder, other / folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    example = other / "kernels" / "examples" / "01_vector_add.py"
    text = example.read_text()
    assert text.count("k.s_endpgm()") == 1
    example.write_text(text.replace("k.s_endpgm()", "k.s_nop(0)\n    k.s_endpgm()"))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    wanted = [WantedBuild("01-vector-add", "gfx950", {}), WantedBuild("03-transpose", "gfx950", {})]
    first, second = compare((ROOT, other), wanted, scratch)
    assert "s_nop 0" in first and not second


def test_an_unknown_revision_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AsmgenError, match="git finds no revision 'nope'"):
        checked_out("nope", tmp_path)
