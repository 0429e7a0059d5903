"""explain and peek: what they say of waits, nops, loads and matrix instructions, and how places and rules are found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from asmgen.author.emit.builder import Builder
from asmgen.checks.explain.explain import explain
from asmgen.checks.waits.insert import insert_waits
from asmgen.checks.waitstates.passes import insert
from asmgen.isa.errors import OperandError
from asmgen.isa.operands import OFF
from asmgen.isa.registers import a, m0, s, v
from asmgen.regalloc.plan import RegisterPlan
from asmgen.tools.cli import main
from tests.clang_objects import needs_clang


def builder() -> Builder:
    return Builder("k", "gfx950")


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


def test_ledger_before_an_instruction() -> None:
    k = builder()
    k.s_load_dword(s[4], s[0:1], 0)
    k.ds_read_b128(v[4:7], v[0])
    k.global_load_dword(v[10], v[0:1], OFF)
    k.global_store_dword(v[2:3], v[11], OFF)
    k.v_add_u32(v[12], v[5], v[13])
    found = explain(k.program(), 4)
    assert [(row.counter, row.newer, row.ordered, row.brings) for row in found.in_flight] == [
        ("vmcnt", 1, True, "v10"), ("vmcnt", 0, True, ""), ("lgkmcnt", 1, False, "s4"), ("lgkmcnt", 0, True, "v[4:7]")]
    assert dict(found.waits) == {"lgkmcnt": 0} and "v[4:7] of ds_read_b128" in found.wait_reasons[0]
    assert [(row.slot, row.text, row.role) for row in found.operands][:3] == [
        ("vdst", "v12", "written"), ("src0", "v5", "read"), ("src1", "v13", "read")]


def test_why_a_wait_stands() -> None:
    k = builder()
    k.global_load_dword(v[10], v[0:1], OFF)
    k.global_load_dword(v[11], v[0:1], OFF)
    k.s_waitcnt(vmcnt=1)
    k.v_mov_b32(v[1], 0)
    k.v_mov_b32(v[2], v[10])
    (why,) = explain(k.program(), 2).why
    assert "v10 of global_load_dword" in why and "first needed by v_mov_b32 v2, v10" in why
    k.s_waitcnt(vmcnt=1)
    assert "nothing that it could wait for" in explain(k.program(), 5).why[0]


def test_why_a_nop_stands() -> None:
    k = builder()
    k.v_mfma_f32_16x16x16_f16(v[0:3], v[4:5], v[6:7], 0)
    k.v_mov_b32(v[8], v[0])
    program = insert(k.program())
    (why, without) = explain(program, 1).why
    assert why.startswith("inserted:") and without.startswith("without it: v_mov_b32 v8, v0 needs 8 wait states")
    bare = builder()
    bare.s_nop(3)
    assert explain(bare.program(), 0).why == ("no rule needs it",)


def test_what_is_missing_and_what_is_live() -> None:
    k = builder()
    k.v_mfma_f32_16x16x16_f16(a[0:3], v[4:5], v[6:7], 0)
    k.v_accvgpr_read_b32(v[8], a[1])
    k.global_store_dword(v[0:1], v[8], OFF)
    k.s_endpgm()
    program = k.program()
    found = explain(program, 1)
    assert found.wait_states == 8 and "a1" in found.state_reasons[0]
    assert "v[0:1]" in found.live and "a1" in found.live and found.live_count == (2, 1, 0)
    assert explain(program, 0).passes == 4 and found.passes == 0


def test_full_counter_is_said() -> None:
    k = builder()
    for _ in range(15):
        k.ds_write_b32(v[0], v[1])
    assert explain(k.program(), 14).stalls == ()
    k.ds_write_b32(v[0], v[1])
    assert explain(k.program(), 15).stalls == ("lgkmcnt",)


def test_peek_says_what_emit_would_need_and_changes_nothing() -> None:
    plan = RegisterPlan("gfx950")
    k = Builder("k", "gfx950", plan)
    address, data, out = plan.vgprs(2, "address"), plan.vgprs(2, "data", align=1), plan.vgprs(1, "out")
    for number in range(2):
        k.global_load_dword(data[number], address, OFF)
    seen = k.peek("v_mov_b32", out, data[0])
    assert dict(seen.waits) == {"vmcnt": 1} and seen.wait_states == 0 and len(k.items) == 2 and k.position == 2
    assert [row.owner for row in seen.operands[:2]] == ["out", "data"]
    assert "test_explain.py" in seen.where
    k.v_mov_b32(out, data[0])
    assert dict(k.peek("v_mov_b32", out, data[0]).waits) == {}
    assert dict(k.peek("v_mov_b32", out, data[1]).waits) == {"vmcnt": 0}
    program = insert_waits(k.program())
    assert [item.text for item in program.instructions][2] == "s_waitcnt vmcnt(1)"
    with pytest.raises(OperandError):
        k.peek("v_mov_b32", out)


def test_peek_counts_wait_states() -> None:
    k = builder()
    k.s_mov_b32(m0, 0)
    assert k.peek("buffer_load_dword", v[0], s[4:7], 0, offen=True, lds=True).wait_states == 1
    assert k.peek("buffer_load_dword", v[1], v[0], s[4:7], 0, offen=True).wait_states == 0


def test_rules_by_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = call(capsys, "explain", "W003")
    assert status == 0 and out.startswith("W003: too few barriers") and "stagger" in out
    status, out, _ = call(capsys, "explain", "xdl-valu-read", "--json")
    assert json.loads(out)["severity"] == "error" and "20 after 16 passes" in json.loads(out)["text"]
    status, out, err = call(capsys, "explain", "W033")
    assert (status, out) == (2, "") and "W003" in err


def test_places_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.s"
    path.write_text('\t.amdgcn_target "amdgcn-amd-amdhsa--gfx942"\nglobal_load_dword v1, v0, s[0:1]\n\nv_mov_b32 v2, v1\ns_endpgm\n')
    status, out, _ = call(capsys, "explain", f"{path}:4")
    assert status == 0 and "needs s_waitcnt vmcnt(0) before it" in out and "brings v1" in out
    (place,) = json.loads(call(capsys, "explain", f"{path}:4", "--json")[1])
    assert place["waits"] == {"vmcnt": 0} and place["position"] == 1
    status, _, err = call(capsys, "explain", f"{path}:3")
    assert status == 2 and "the nearest are at 2, 4, 5" in err
    status, _, err = call(capsys, "explain", f"{path}:0x10")
    assert status == 2 and "have no addresses; FILE:LINE names them" in err
    assert call(capsys, "explain", f"{tmp_path}/none.s:1")[0] == 2


@pytest.mark.needs_objdump
def test_owners_of_a_built_kernel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The register map beside the file names owners, of the line's own region where the text has regions."""
    call(capsys, "build", "gemm-bf16", "--arch", "gfx942", "-o", str(tmp_path))
    built = "gemm-bf16_gfx942_128x128x64_interleave"
    lines = (tmp_path / f"{built}.s").read_text().splitlines()
    number = next(number for number, line in enumerate(lines, 1) if "v_mfma_f32_16x16x16" in line)  # of the product, not of zero
    (place,) = json.loads(call(capsys, "explain", f"{tmp_path}/{built}.s:{number}", "--json")[1])
    assert [row["owner"] for row in place["operands"]][:4] == ["C", "B", "A", "C"]
    (tmp_path / f"{built}.co").write_bytes(b"other")
    (place,) = json.loads(call(capsys, "explain", f"{tmp_path}/{built}.s:{number}", "--json")[1])
    assert place["operands"][0]["owner"] == ""


@needs_clang
@pytest.mark.needs_objdump
def test_addresses_of_a_code_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.clang_objects import hip_object

    code_object = hip_object("divergent_calls", "gfx942")
    path = tmp_path / "calls.co"
    path.write_bytes(code_object.data)
    entry = next(iter(code_object.kernels.values())).entry
    (place,) = json.loads(call(capsys, "explain", f"{path}:{entry:#x}", "--json")[1])
    assert place["position"] == 0 and place["in_flight"] == []
    status, _, err = call(capsys, "explain", f"{path}:{entry + 1:#x}")
    assert status == 2 and hex(entry) in err
