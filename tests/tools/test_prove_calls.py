"""`asmgen prove` of code that calls: judged where each call goes to a known function, unknown at the first that does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from asmgen.checks.lint.facts import KernelFacts
from asmgen.reader.assembly import read_text
from asmgen.tools.proofs.proof import PROVEN, REFUTED, UNKNOWN
from asmgen.tools.proofs.textclaims import RETURNS, errata_claim, prove_file
from asmgen.tools.prove_command import prove_spec
from tests.clang_objects import hip_object, needs_clang
from tests.tools.test_prove import specification

CALL, RETURN = "s_call_b64 s[30:31], f\n", "f:\nv_mov_b32 v1, 0\ns_setpc_b64 s[30:31]\n"
UNKNOWN_CALL = "s_swappc_b64 s[30:31], s[4:5]\n"
LOAD, USE = "global_load_dword v2, v[4:5], off\n", "v_add_f32 v3, v2, v2\n"


@pytest.mark.parametrize(("code", "status", "at"), [
    (f"{CALL}s_endpgm\n{RETURN}", PROVEN, None), (f"{CALL}{CALL}s_endpgm\n{RETURN}", PROVEN, None),
    (f"{CALL}{UNKNOWN_CALL}s_endpgm\n{RETURN}", UNKNOWN, UNKNOWN_CALL), (f"{CALL}s_setpc_b64 s[30:31]\n{RETURN}", UNKNOWN, "s_setpc"),
    # A function that calls on: its own return address is a copy; the inner one's call is known, or not.
    (f"{CALL}s_endpgm\nf:\ns_mov_b64 s[34:35], s[30:31]\ns_call_b64 s[30:31], g\ns_setpc_b64 s[34:35]\ng:\ns_setpc_b64 s[30:31]\n", PROVEN,
     None),
    (f"{CALL}s_endpgm\nf:\ns_mov_b64 s[34:35], s[30:31]\n{UNKNOWN_CALL}s_setpc_b64 s[34:35]\n", UNKNOWN, UNKNOWN_CALL),
    # A jump inside of a function that is no return, and a function that the kernel also runs into.
    (f"{CALL}s_endpgm\nf:\ns_cbranch_scc0 out\ns_setpc_b64 s[6:7]\nout:\ns_setpc_b64 s[30:31]\n", UNKNOWN, "s_setpc_b64 s[6:7]"),
    (f"{CALL}{RETURN}", UNKNOWN, "s_setpc_b64 s[30:31]"), (f"{CALL}s_branch f\n{RETURN}", UNKNOWN, "s_setpc_b64 s[30:31]"),
    # Code that nothing comes to.
    (f"{CALL}s_endpgm\n{RETURN}{UNKNOWN_CALL}s_endpgm\n", PROVEN, None),
    (f"{LOAD}{CALL}s_endpgm\n{RETURN.replace('v_mov_b32 v1, 0', USE)}", REFUTED, "v_add_f32")])
def test_errata_follow_known_calls(code: str, status: str, at: str | None) -> None:
    (program,) = read_text(code, "gfx950", "k", "k.s")
    claim = errata_claim(program, KernelFacts())
    assert claim.status == status
    assert claim.at is None if at is None else claim.at is not None and at.strip() in claim.at
    assert RETURNS in claim.assumptions or status != PROVEN


@needs_clang
@pytest.mark.parametrize(("name", "status"), [("divergent_calls", PROVEN), ("vector_add", PROVEN), ("lds_reduce", PROVEN),
                                              ("indirect_calls", UNKNOWN)])
def test_code_of_clang_without_optimisation_is_judged(name: str, status: str, tmp_path: Path) -> None:
    """-O0 calls a function for each index of a work-item, and spills addresses into lanes. A target that memory holds is not known."""
    path = tmp_path / "k.co"
    path.write_bytes(hip_object(name, "gfx950", 0).data)
    claim = prove_file(path).claims[-1]
    assert claim.status == status and (status == PROVEN or "s_swappc_b64" in str(claim.at))


@pytest.mark.parametrize(("way", "status"), [("", UNKNOWN), ("second", REFUTED), ("first", REFUTED)])
def test_each_register_that_may_be_touched_too_early_is_shown_by_a_launch(way: str, status: str, tmp_path: Path) -> None:
    """Two loads that a skipped branch alone leaves unwaited; a launch may take either way, or none."""
    lines = ["v_mov_b32 v2, 0\ns_load_dwordx2 s[8:9], s[0:1], 0\ns_waitcnt lgkmcnt(0)\n"]
    for number, name in enumerate(("first", "second")):
        lines.append(f"s_mov_b64 exec, -1\nglobal_load_dword v{8 + number}, v2, s[8:9]\ns_mov_b64 exec, {int(name != way)}\n"
                     f"s_cbranch_execz {name}\ns_waitcnt vmcnt(0)\n{name}:\ns_mov_b64 exec, -1\nv_mov_b32 v{8 + number}, 1\n"
                     "s_waitcnt vmcnt(0)\n")
    assert prove_spec(specification(tmp_path, "".join(lines) + "s_endpgm\n")).claims[-1].status == status
