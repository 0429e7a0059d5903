"""The comparison of all builds with those of another revision: comments may differ, nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from asmgen.isa.errors import AsmgenError
from asmgen.tools.samebuilds import WantedBuild, build_all, checked_out, difference, requests

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
    assert [(one.arch, one.parameters["tile"]) for one in requests(["gemm-fp8"], choices=False)].count(("gfx950", "64x64x128")) == 1
    assert len(list(requests(["gemm-bf16"], choices=True))) > len(list(requests(["gemm-bf16"], choices=False)))


def test_a_build_that_fails_is_named(tmp_path: Path) -> None:
    tree = Path(__file__).resolve().parents[2]
    with pytest.raises(AsmgenError, match=r"does not build 01-vector-add gfx906: .*gfx906"):
        build_all(tree, [WantedBuild("01-vector-add", "gfx906", {})], tmp_path)


def test_an_unknown_revision_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AsmgenError, match="git finds no revision 'nope'"):
        checked_out("nope", tmp_path)
