"""Functions of a text come with the kernels that call them, and what is in flight goes over the calls as in code objects."""

from __future__ import annotations

from pathlib import Path

import pytest

from asmgen.checks.lint.linting import lint_file
from asmgen.reader.file import read_file
from asmgen.tools.proofs.proof import PROVEN, REFUTED, UNKNOWN
from asmgen.tools.proofs.textclaims import prove_file

CALL = "s_call_b64 s[30:31], f\n"
RELATIVE = "s_getpc_b64 s[4:5]\ns_add_u32 s4, s4, f@rel32@lo+4\ns_addc_u32 s5, s5, f@rel32@hi+12\ns_swappc_b64 s[30:31], s[4:5]\n"
DIFFERENCE = "s_getpc_b64 s[4:5]\nhere:\ns_add_u32 s4, s4, f-here\ns_addc_u32 s5, s5, {}\ns_swappc_b64 s[30:31], s[4:5]\n"
POINTER = "s_swappc_b64 s[30:31], s[4:5]\n"
SAVED, INNER = "s_mov_b64 s[34:35], s[30:31]\n", "s_call_b64 s[30:31], g\n"
SPILLED = "v_writelane_b32 v40, s30, 0\nv_writelane_b32 v40, s31, 1\n"
RELOADED = "v_readlane_b32 s30, v40, 0\nv_readlane_b32 s31, v40, 1\n"
WAIT, USE = "s_waitcnt vmcnt(0)\n", "v_mov_b32 v3, v1\n"


def function(name: str, code: str) -> str:
    return f".type {name},@function\n{name}:\n{code}.size {name}, .-{name}\n"


def kernel(name: str, code: str) -> str:
    body = f"v_mov_b32 v2, 0\nglobal_load_dword v1, v2, s[0:1]\n{code}s_waitcnt vmcnt(0)\ns_endpgm\n"
    return f"{function(name, body)}.amdhsa_kernel {name}\n.amdhsa_next_free_vgpr 8\n.amdhsa_next_free_sgpr 40\n.amdhsa_accum_offset 8\n" \
           ".amdhsa_user_sgpr_kernarg_segment_ptr 1\n.end_amdhsa_kernel\n"


def file(folder: Path, *parts: str) -> Path:
    path = folder / "k.s"
    path.write_text('.amdgcn_target "amdgcn-amd-amdhsa--gfx950"\n.text\n' + "".join(parts))
    return path


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("call", "called", "status"), [
    (CALL, USE, REFUTED), (CALL, WAIT + USE, PROVEN), (WAIT + CALL, USE, PROVEN), (RELATIVE, USE, REFUTED), (RELATIVE, WAIT + USE, PROVEN),
    (DIFFERENCE, USE, REFUTED), (DIFFERENCE, WAIT + USE, PROVEN), (POINTER, USE, UNKNOWN),
    # Another number than the distance to the literal, an instruction between, the halves of two functions: nobody knows.
    (RELATIVE.replace("lo+4", "lo+8"), USE, UNKNOWN), (RELATIVE.replace("s_addc", "s_nop 0\ns_addc"), USE, UNKNOWN),
    (RELATIVE.replace("f@rel32@hi", "g@rel32@hi"), USE, UNKNOWN)])
def test_what_is_in_flight_goes_over_calls_between_functions(call: str, called: str, status: str, after: bool, tmp_path: Path) -> None:
    parts = [function("f", f"{called}s_setpc_b64 s[30:31]\n"), function("g", "s_setpc_b64 s[30:31]\n"),
             kernel("k", call.format(0 if after else -1))]
    path = file(tmp_path, *(reversed(parts) if after else parts))
    assert prove_file(path).claims[-1].status == status
    assert [finding.line for finding in lint_file(path).findings if finding.rule == "W001"] == \
        [path.read_text().split("\n").index("v_mov_b32 v3, v1") + 1] * (status == REFUTED)


@pytest.mark.parametrize(("code", "status"), [
    ("", PROVEN), (USE, REFUTED), (WAIT + USE, PROVEN), (USE + WAIT, REFUTED), ("s_cbranch_scc0 f\n", PROVEN), (POINTER, UNKNOWN)])
@pytest.mark.parametrize("called", [False, True])
def test_jumps_to_addresses_by_position_are_followed(code: str, status: str, called: bool, tmp_path: Path) -> None:
    """A long jump of a kernel, and a function whose last call is a jump: g returns to the caller of f."""
    jump = RELATIVE.replace("f@", "g@").replace("s_swappc_b64 s[30:31], s[4:5]", "s_setpc_b64 s[4:5]")
    last = "s_setpc_b64 s[30:31]\n" if called else "s_waitcnt vmcnt(0)\ns_endpgm\n"
    path = file(tmp_path, function("g", code + last), function("f", jump), kernel("k", CALL if called else jump))
    assert prove_file(path).claims[-1].status == status
    # What g leaves in flight comes back to the kernel.
    load = file(tmp_path, function("g", "global_load_dword v1, v2, s[0:1]\n" + last), function("f", jump),
                kernel("k", f"{WAIT}{CALL}{USE}" if called else jump))
    assert prove_file(load).claims[-1].status == (REFUTED if called else PROVEN)


def test_a_function_that_calls_itself_keeps_no_address(tmp_path: Path) -> None:
    """g has s[4:5] changed when the inner run of it comes back, so what it calls then is not known."""
    address = RELATIVE[:RELATIVE.index("s_swappc")]
    # Where it returns to comes back from lanes, and these from memory, as in compilers' code.
    inner = f"scratch_store_dword off, v40, s32\n{SPILLED}{address}s_cbranch_scc0 out\ns_call_b64 s[30:31], g\n{POINTER}out:\n" \
            f"s_mov_b64 s[4:5], s[8:9]\ns_nop 4\n{RELOADED}scratch_load_dword v40, off, s32\n{WAIT}s_setpc_b64 s[30:31]\n"
    for name, status in (("g", UNKNOWN), ("h", PROVEN)):
        parts = [function("f", "s_setpc_b64 s[30:31]\n"), function("h", "s_setpc_b64 s[30:31]\n"),
                 function("g", inner.replace("], g", f"], {name}")), kernel("k", CALL.replace("f", "g"))]
        path = file(tmp_path, *parts)
        path.write_text(path.read_text().replace("free_vgpr 8", "free_vgpr 48").replace("accum_offset 8", "accum_offset 48"))
        assert prove_file(path).claims[-1].status == status


@pytest.mark.parametrize(("code", "by", "status"), [
    ("", 30, PROVEN), ("s_mov_b64 s[30:31], s[8:9]\n", 30, UNKNOWN), ("s_add_u32 s30, s30, 8\n", 30, UNKNOWN), ("", 34, UNKNOWN),
    ("s_load_dwordx2 s[30:31], s[0:1], 0\ns_waitcnt lgkmcnt(0)\n", 30, UNKNOWN), (INNER, 30, UNKNOWN),
    (SAVED + "s_mov_b32 s30, 0\n", 34, PROVEN), (SAVED + "s_mov_b32 s34, 0\n", 34, UNKNOWN), (SAVED + INNER, 34, PROVEN),
    (SAVED + INNER + "s_mov_b64 s[30:31], s[34:35]\n", 30, PROVEN), (SPILLED + INNER + RELOADED, 30, PROVEN),
    (SPILLED + INNER + RELOADED.replace("v40, 1", "v40, 0"), 30, UNKNOWN), (SPILLED + INNER, 30, UNKNOWN),
    (SPILLED + "v_writelane_b32 v40, s8, 1\ns_nop 4\n" + RELOADED, 30, UNKNOWN),
    # One of two ways overwrites it.
    ("s_cbranch_scc0 out\ns_mov_b32 s31, 0\nout:\n", 30, UNKNOWN), ("s_cbranch_scc0 out\ns_mov_b32 s32, 0\nout:\n", 30, PROVEN)])
def test_a_return_goes_where_the_call_was_only_by_its_address(code: str, by: int, status: str, tmp_path: Path) -> None:
    parts = [function("g", "s_setpc_b64 s[30:31]\n"), function("f", f"{code}s_setpc_b64 s[{by}:{by + 1}]\n"), kernel("k", CALL)]
    path = file(tmp_path, *parts)
    path.write_text(path.read_text().replace("free_vgpr 8", "free_vgpr 48").replace("accum_offset 8", "accum_offset 48"))
    assert prove_file(path).claims[-1].status == status


def test_kernels_share_functions_and_others_stay_alone(tmp_path: Path) -> None:
    """A function is part of each kernel that comes to it, by way of another too. A finding in it is told once."""
    load = "global_load_dword v1, v2, s[0:1]\n"
    parts = [function("f", f"{load}{USE}s_setpc_b64 s[30:31]\n"), function("g", "s_branch f\n"), function("h", "s_setpc_b64 s[30:31]\n"),
             kernel("k", WAIT + CALL), kernel("k2", WAIT + RELATIVE.replace("f@", "g@")), kernel("k3", "s_nop 0\n")]
    programs = read_file(file(tmp_path, *parts)).programs
    assert [program.name for program in programs] == ["h", "k", "k2", "k3"]
    assert [[name for name in "fgh" if name in program.labels] for program in programs] == [[], ["f"], ["f", "g"], []]
    assert all(not program.guessed for program in programs)
    assert len([finding for finding in lint_file(tmp_path / "k.s").findings if finding.rule == "W001"]) == 1


def test_calls_of_unknown_target_may_reach_every_function(tmp_path: Path) -> None:
    parts = [function("f", "s_setpc_b64 s[30:31]\n"), function("g", "s_setpc_b64 s[30:31]\n"), kernel("k", CALL + POINTER)]
    (program,) = read_file(file(tmp_path, *parts)).programs
    assert program.guessed == "g" and program.labels["f"] < program.labels["g"]


def test_code_that_runs_off_a_function_is_not_put_elsewhere(tmp_path: Path) -> None:
    parts = [function("f", "s_nop 0\n"), function("g", "s_setpc_b64 s[30:31]\n"), kernel("k", CALL)]
    assert [program.name for program in read_file(file(tmp_path, *parts)).programs] == ["f", "g", "k"]
    assert prove_file(tmp_path / "k.s").claims[-1].status == UNKNOWN


def test_functions_that_call_each_other_without_a_kernel(tmp_path: Path) -> None:
    """Where all are called by others, each is judged alone; else those that no other one names, with what they call."""
    both = [function("f", "s_call_b64 s[30:31], g\ns_setpc_b64 s[34:35]\n"),
            function("g", "s_call_b64 s[30:31], f\ns_setpc_b64 s[34:35]\n")]
    assert [program.name for program in read_file(file(tmp_path, *both)).programs] == ["f", "g"]
    top = function("top", "s_call_b64 s[36:37], f\ns_setpc_b64 s[38:39]\n")
    assert [program.name for program in read_file(file(tmp_path, *both, top)).programs] == ["top"]
