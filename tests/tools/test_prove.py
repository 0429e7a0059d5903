"""`asmgen prove`, certificates and their verification: what is said of right kernels and of wrong ones."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from asmgen.author.contract.problem import FIRST_HUGE, strained
from asmgen.author.family.family import Family
from asmgen.checks.lint.facts import KernelFacts
from asmgen.checks.mutants.mutants import Mutant
from asmgen.checks.mutants.valuemutants import K_ORDER, MAXIMUM, value_mutants
from asmgen.isa.registers import s
from asmgen.kernels.registry import family
from asmgen.program.program import Instruction, Program
from asmgen.reader.assembly import read_text
from asmgen.toolchain import assemble
from asmgen.tools import mutantproofs
from asmgen.tools.metedges import EQUIVALENT, NOT_TOLD, MetEdges, compares_floats, fed_comparisons
from asmgen.tools.mutantproofs import SAME_BITS, OrderJudge, changes_no_bit
from asmgen.tools.proofs import addressclaim, orderclaim, runclaims
from asmgen.tools.proofs.addressclaim import Launched
from asmgen.tools.proofs.addressrun import AddressReport, run_addresses
from asmgen.tools.proofs.algebrarun import run_algebra
from asmgen.tools.proofs.certificate import _by_launches
from asmgen.tools.proofs.edgelaunches import EdgeLaunches
from asmgen.tools.proofs.orderclaim import early_launch, order_claim
from asmgen.tools.proofs.proof import CLAIMS, PROVEN, REFUTED, UNKNOWN, Claim, Proof, settled
from asmgen.tools.proofs.proofclasses import counted_launches, cut_steps, given_launches
from asmgen.tools.proofs.runclaims import Ran, index_claim
from asmgen.tools.proofs.textclaims import errata_claim
from asmgen.tools.proofsweep import default_builds
from asmgen.tools.running.build import Built, build_kernel
from asmgen.tools.running.executed import never_round
from asmgen.tools.running.keptdevices import keeping
from tests.checks.test_race_proofs import CLUSTERS, FAULTS, HEAD, RIGHT
from tests.tools.test_cli import call, refused

pytestmark = pytest.mark.needs_objdump


@pytest.mark.parametrize(("wait", "over", "status"), [
    ("s_waitcnt vmcnt(0)", "v_exp_f32 v7, v7\ns_nop 0\n", PROVEN), ("s_waitcnt vmcnt(1)", "", UNKNOWN), ("s_nop 0", "", UNKNOWN),
    ("s_waitcnt vmcnt(0)", "v_exp_f32 v7, v7\n", REFUTED)])
def test_what_lint_only_warns_of_is_not_proven(wait: str, over: str, status: str) -> None:
    """A register is overwritten, on a path that may be impossible, while it is loaded under another EXEC."""
    text = f"v_mov_b32 v7, 0\nv_mov_b32 v2, 0\nbuffer_load_dword v8, v2, s[8:11], 0 offen\ns_mov_b64 exec, s[4:5]\n" \
           f"s_cbranch_execz over\n{wait}\nv_mov_b32 v8, 0\nover:\n{over}v_add_f32 v7, v7, v7\ns_endpgm\n"
    (program,) = read_text(f'.amdgcn_target "amdgcn-amd-amdhsa--gfx950"\nk:\n.type k,@function\n{text}.size k, .-k\n', None, "k", "k.s")
    assert errata_claim(program, KernelFacts()).status == status


@pytest.mark.parametrize("nop, status", [("", UNKNOWN), ("s_nop 0\n", PROVEN)])
def test_a_note_that_a_wait_state_may_lack_leaves_errata_unknown(nop: str, status: str) -> None:
    """LLVM puts one between M0 and a buffer load into LDS, where the ISA text does not name buffer loads. That the wait is stricter than it
    need be is a note too, which leaves nothing open."""
    text = f"buffer_load_dword v2, off, s[8:11], 0\ns_mov_b32 m0, s2\n{nop}buffer_load_dword off, s[8:11], 0 lds\ns_waitcnt vmcnt(0)\n" \
           "buffer_store_dword v2, off, s[8:11], 0\ns_endpgm\n"
    (program,) = read_text(f'.amdgcn_target "amdgcn-amd-amdhsa--gfx950"\nk:\n.type k,@function\n{text}.size k, .-k\n', None, "k", "k.s")
    assert errata_claim(program, KernelFacts()).status == status


@cache
def parsed_build(name: str, arch: str, *chosen: str) -> Built:
    """A build with those parameters, and defaults."""
    return build_kernel(family(name), arch, family(name).parse(arch, chosen), verify=False)


def specification(folder: Path, code: str) -> Path:
    """A launch of 8 waves with the number 4, which are rounds of two clusters."""
    (folder / "k.co").write_bytes(assemble(HEAD.format(code=code), "gfx950"))
    launch = {"code_object": "k.co", "grid": [1, 1, 1], "block": [512, 1, 1],
              "args": [{"offset": 0, "zeros": 65536}, {"offset": 8, "scalar": "u32", "value": 4}]}
    path = folder / "spec.json"
    path.write_text(json.dumps(launch))
    return path


def claims_of(out: str) -> dict[str, dict[str, Any]]:
    return {claim["claim"]: claim for claim in json.loads(out)["claims"]}


def test_a_specification_that_races_is_shown_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = specification(tmp_path, CLUSTERS.format(**RIGHT | FAULTS["a fill that lands a stage late"]))
    status, out, _ = call(capsys, "prove", str(path), "--json")
    races = claims_of(out)["races"]
    assert status == 1 and races["status"] == REFUTED and races["counterexample"]["spec"] == str(path)
    assert "global_load_lds_dwordx4" in races["reason"] and races["at"]


@pytest.mark.parametrize("number, status", [(4, REFUTED), (5, UNKNOWN)])
def test_a_path_without_its_wait_is_shown_where_a_specification_takes_it(number: int, status: str, tmp_path: Path,
                                                                         capsys: pytest.CaptureFixture[str]) -> None:
    code = "s_load_dwordx2 s[8:9], s[0:1], 0\ns_load_dword s22, s[0:1], 8\nv_mov_b32 v2, 0\nv_mov_b32 v8, 0\ns_waitcnt lgkmcnt(0)\n" \
           "s_cmp_eq_u32 s22, 4\ns_cbranch_scc0 unread\nglobal_load_dword v8, v2, s[8:9]\nunread:\n" \
           f"s_cmp_eq_u32 s22, {number}\ns_cbranch_scc0 over\nv_mov_b32 v9, v8\nover:\ns_endpgm\n"
    path = specification(tmp_path, code)
    _, out, _ = call(capsys, "prove", str(path), "--json")
    errata = claims_of(out)["errata"]
    assert errata["status"] == status and "if that path is ever taken" in errata["reason"]
    assert errata["counterexample"] == ({"spec": str(path), "order": "lockstep", "kernel": "k"} if status == REFUTED else None)


def test_its_right_twin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is known of what it should compute, which counts with --strict alone."""
    path = specification(tmp_path, CLUSTERS.format(**RIGHT))
    status, out, _ = call(capsys, "prove", str(path), "--json")
    claims = claims_of(out)
    assert status == 0 and tuple(claims) == CLAIMS
    assert claims["races"]["status"] == PROVEN and claims["index"]["status"] == claims["order"]["status"] == UNKNOWN
    assert "a workgroup has 512 x 1 x 1 work-items" in claims["races"]["assumptions"]
    assert call(capsys, "prove", str(path), "--strict")[0] == 1
    assert "takes no --arch" in refused(capsys, "prove", str(path), "--arch", "gfx950")


def test_a_file_of_code_is_judged_without_a_launch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for faults, status in (({}, PROVEN), (FAULTS["a fill that lands a stage late"], REFUTED)):
        specification(tmp_path, CLUSTERS.format(**RIGHT | faults))
        exit_status, out, _ = call(capsys, "prove", str(tmp_path / "k.co"), "--json")
        claims = claims_of(out)
        assert tuple(claims) == CLAIMS and claims["races"]["status"] == status and exit_status == (status == REFUTED)
        assert claims["index"]["status"] == claims["order"]["status"] == UNKNOWN
    text = tmp_path / "k.s"
    text.write_text("k:\nv_mov_b32 v1, 0\nv_mov_b32_dpp v2, v1 row_shr:1 row_mask:0xf bank_mask:0xf\ns_endpgm\n")
    status, out, _ = call(capsys, "prove", str(text), "--arch", "gfx942", "--json")
    assert status == 1 and claims_of(out)["errata"]["reason"].startswith("valu-dpp")
    assert "takes no -p tile=1" in refused(capsys, "prove", str(text), "-p", "tile=1")
    assert "kernels" not in json.loads(out)
    text.write_text("".join(f".type {name},@function\n{name}:\n{code}s_endpgm\n.size {name}, .-{name}\n" for name, code in (
        ("right", ""), ("wrong", "v_mov_b32 v1, 0\nv_mov_b32_dpp v2, v1 row_shr:1 row_mask:0xf bank_mask:0xf\n"), ("last", ""))))
    _, out, _ = call(capsys, "prove", str(text), "--arch", "gfx942", "--json")
    assert claims_of(out)["errata"]["status"] == REFUTED
    each = {row["kernel"]: {claim["claim"]: claim["status"] for claim in row["claims"]} for row in json.loads(out)["kernels"]}
    assert each == {"right": {"races": PROVEN, "errata": PROVEN}, "wrong": {"races": PROVEN, "errata": REFUTED},
                    "last": {"races": PROVEN, "errata": PROVEN}}
    assert "  wrong: races proven, errata refuted\n  last: races proven, errata proven\nk.s" in \
        call(capsys, "prove", str(text), "--arch", "gfx942")[1]


@pytest.mark.slow
def test_a_certificate_holds_for_its_code_object_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = call(capsys, "build", "03-transpose", "--arch", "gfx950", "--prove", "-o", str(tmp_path), "--json")
    paths = {path.name.partition(".")[2]: path for path in map(Path, json.loads(out))}
    assert status == 0 and sorted(paths) == ["co", "json", "proof.json", "s"]
    document = json.loads(paths["proof.json"].read_text())
    statuses = {claim["claim"]: claim["status"] for claim in document["claims"]}
    assert statuses == {"index": PROVEN, "races": PROVEN, "order": PROVEN, "errata": PROVEN}
    status, out, _ = call(capsys, "verify-certificate", str(paths["proof.json"]), "--json")
    again = json.loads(out)
    assert status == 0 and again["holds"] and [claim["claim"] for claim in again["again"]] == ["races", "errata"]

    paths["proof.json"].write_text(json.dumps(document | {"claims": [{"claim": "races", "status": "refuted"}]}))
    status, out, _ = call(capsys, "verify-certificate", str(paths["proof.json"]))
    assert status == 1 and "it says races refuted, which is proven" in out
    for change in ({"arch": "gfx942"}, {"kernel": "other"}, {"claims": document["claims"][1:]}, {"claims": [{"claim": ["races"]}]}):
        paths["proof.json"].write_text(json.dumps(document | change))
        status, out, _ = call(capsys, "verify-certificate", str(paths["proof.json"]))
        assert status == 1 and "it was changed after it was made" in out
        assert ("it says gfx942, and" in out) == ("arch" in change)
    paths["proof.json"].write_text(json.dumps(document | {"workgroups": {"other": [64, 1, 1]}}))
    status, out, _ = call(capsys, "verify-certificate", str(paths["proof.json"]))
    assert status == 1 and "has no kernel other" in out
    paths["proof.json"].write_text(json.dumps(document))
    paths["co"].write_bytes(paths["co"].read_bytes() + b"\0")
    status, out, _ = call(capsys, "verify-certificate", str(paths["proof.json"]))
    assert status == 1 and "is not the code object that it was made for" in out


@pytest.mark.parametrize(("claim", "again", "row", "may"), [
    ("races", PROVEN, {"status": UNKNOWN}, True), ("races", PROVEN, {"status": REFUTED, "counterexample": {"seed": 1}}, True),
    ("races", PROVEN, {"status": REFUTED}, False), ("races", UNKNOWN, {"status": UNKNOWN, "counterexample": {"seed": 1}}, False),
    ("races", PROVEN, {}, False), ("errata", PROVEN, {"status": UNKNOWN}, False)])
def test_launches_say_less_than_code_alone_of_stores_only(claim: str, again: str, row: dict[str, Any], may: bool) -> None:
    assert _by_launches(Claim(claim, again, "all"), row) == may


@pytest.mark.parametrize(("text", "says"), [
    ("{}", "is no certificate: it has no asmgen"), ("[1]", "is no certificate"), ("{", "is no JSON document"),
    pytest.param("9" * 5000, "is no JSON document", id="a number that Python does not convert"),
    ('{"asmgen": "0", "code_object": "k.co", "sha256": "", "kernel": "k", "arch": "gfx950", "workgroups": {}, "claims": []}', "k.co")])
def test_what_is_no_certificate(text: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.proof.json"
    path.write_text(text)
    assert says in refused(capsys, "verify-certificate", str(path))


def mutated(program: Program, name: str, operand: int, other: int) -> Program:
    """The program with a source of its last instruction of that name replaced by another one of its sources."""
    old = next(item for item in reversed(program.items) if isinstance(item, Instruction) and item.name == name)
    operands = [*old.operands]
    operands[operand] = operands[other]
    new = replace(old, operands=tuple(operands))
    return program.with_items(new if item is old else item for item in program.items)


def test_a_wrong_product_is_refuted_with_a_launch() -> None:
    """The last matrix instruction of a product takes A for B. Floats or residues show it, whichever launch runs it first."""
    library = family("gemm-bf16")
    built = parsed_build(library.name, "gfx950", "tile=64x64x64", "schedule=interleave")
    claim = index_claim(library, built, 60.0, mutated(built.kernel.program, "v_mfma_f32_16x16x32_bf16", 2, 1))
    assert claim.status == REFUTED and re.match(r"d: of |on the data of seed \d+ the largest error is", claim.reason)
    assert claim.counterexample is not None and claim.counterexample["parameters"]["tile"] == "64x64x64"


def test_bytes_between_rows_are_judged() -> None:
    """The column after the last one is stored where a mask takes equality in: each element of D is right."""
    library = family("gemm-bf16")
    built = parsed_build(library.name, "gfx950", "tile=16x32x64", "schedule=in-order")
    program = built.kernel.program
    old = [one for one in program.instructions if one.text.startswith("v_cmp_lt_i32 vcc, 3,")][-1]
    (new,) = read_text(f"{old.text.replace('_lt_', '_le_')}\ns_endpgm\n", "gfx950")
    wrong = program.with_items(new.instructions[0] if one is old else one for one in program.items)
    values = built.kernel.contract.resolve_run({**built.kernel.parameters, "m": 5, "n": 27, "k": 64, "ldd": 40})
    reports = [run_algebra(library, built, values, program=judged) for judged in (program, wrong)]
    assert [(report.equal, report.changed, report.mismatches) for report in reports] == [(True, (), ()), (False, ("d",), ())]
    assert runclaims._wrong(library, built, values, wrong, False, 0, 1) == "d: bytes change that no output has"


def test_what_a_path_reads_before_it_is_written_is_not_0() -> None:
    """Rows of few columns alone go on without the sum's 0; longer ones execute all code."""
    library = family("02-row-sum")
    built = parsed_build(library.name, "gfx950")
    text = built.text.replace("\tv_mov_b32 v1, 0\n", "")
    few = text.replace("\ts_lshl_b32 s14,", "\ts_cmp_lt_u32 s8, 80\n\ts_cbranch_scc1 few\n\tv_mov_b32 v1, 0\nfew:\n\ts_lshl_b32 s14,")
    (program,) = read_text(few, None, "k", "k.s")
    claim = index_claim(library, built, 40.0, replace(program, name=built.kernel.program.name))
    assert claim.status == REFUTED and "5 differ from the reference" in claim.reason


def test_what_the_algebra_has_no_rule_for_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is right; a residue is lost on the way."""
    monkeypatch.setattr("asmgen.emulator.algebra.algebrarules.rule_of", lambda name: None)
    library = family("02-row-sum")
    claim = index_claim(library, parsed_build(library.name, "gfx950"), 40.0)
    assert claim.status == UNKNOWN and "no rule for" in claim.reason and "6 have no residue" in claim.reason


@pytest.mark.slow
def test_a_wait_that_lacks_on_some_path_is_refuted_where_a_launch_takes_it() -> None:
    """The rows of a workgroup's second round are loaded in the first one: lint does not know that there is a second one."""
    library = family("softmax")
    built = build_kernel(library, "gfx950", next(default_builds(library, "gfx950")), verify=False)
    old = next(one for one in built.kernel.program.instructions if one.text == "s_waitcnt vmcnt(3)")
    wrong = built.kernel.program.with_items(one for one in built.kernel.program.items if one is not old)
    claim = errata_claim(wrong, KernelFacts(block=built.kernel.contract.workgroup))
    assert claim.status == UNKNOWN and claim.suspected and early_launch(library, built, claim) is None
    found = settled(claim, lambda: early_launch(library, built, claim, wrong))
    assert found.status == REFUTED and found.counterexample is not None and found.counterexample["parameters"]["rows"] > 5
    assert early_launch(library, built, replace(claim, early=("elsewhere: v_nop",)), wrong) is None


@pytest.mark.slow
def test_a_maximum_that_misses_an_element_is_refuted() -> None:
    """exp(x - m) / sum exp(x - m) is one number for each m: floats show a wrong one, algebra does not."""
    library = family("softmax")
    built = build_kernel(library, "gfx950", next(default_builds(library, "gfx950")), verify=False)
    mutants = [mutant for mutant in value_mutants(built.kernel.program) if mutant.kind == MAXIMUM]
    assert len(mutants) > 10
    for mutant in mutants[::7]:
        claim = index_claim(library, built, 60.0, mutant.program)
        assert claim.status == REFUTED and claim.counterexample is not None
        assert "error" in claim.reason and strained(claim.counterexample["seed"])
    claim = index_claim(library, built, 60.0)
    assert claim.status == PROVEN and "launches on floats" in claim.scope


def test_addresses_are_followed_on_the_data_that_executed_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """One launch executes the first half of the code, another one, on large numbers, the second half."""
    def launch_all(ran: Ran, library: Family, built: Built, program: Program | None, judged: Program, until: float) -> None:
        contract, half = built.kernel.contract, (len(judged.instructions) + 1) // 2
        values = contract.resolve_run({**built.kernel.parameters, **given_launches(contract, built.kernel.parameters)[0]})
        ran.counts += [(1,) * half + (0,) * half, (0,) * half + (2,) * half]
        ran.launched += [Launched(values, 0, 1), Launched(values, 8, FIRST_HUGE + 1)]

    def noted(*given: Any) -> AddressReport:
        followed.append(given[3:])
        return run_addresses(*given)

    followed: list[tuple[Any, ...]] = []
    monkeypatch.setattr(Ran, "launch_strained", lambda *_: None)
    monkeypatch.setattr(Ran, "launch_all", launch_all)
    monkeypatch.setattr(addressclaim, "run_addresses", noted)
    library = family("02-row-sum")
    claim = index_claim(library, parsed_build(library.name, "gfx950"), 60.0)
    assert claim.status == PROVEN and sorted(followed) == [(1, None, 0), (FIRST_HUGE + 1, None, 8)]


def test_time_that_is_over_proves_nothing() -> None:
    library = family("gemm-bf16")
    built = parsed_build(library.name, "gfx950", "tile=64x64x64", "schedule=interleave")
    claim = index_claim(library, built, 0.0)
    assert claim.status == UNKNOWN and "were over" in claim.reason


def test_the_order_of_a_row_sum_is_its_own() -> None:
    library = family("02-row-sum")
    assert order_claim(library, parsed_build(library.name, "gfx950")).status == PROVEN


def test_launches_of_the_order_claim_execute_each_matrix_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without launches of longer loops those of the loop are executed nowhere: nothing is proven of them, nor told of a mutant there."""
    library = family("gemm-bf16")
    built = parsed_build(library.name, "gfx950", "tile=16x16x64")
    within = next(mutant for mutant in value_mutants(built.kernel.program) if mutant.kind == K_ORDER)
    monkeypatch.setattr(orderclaim, "ORDERS", ("lockstep",))
    monkeypatch.setattr(mutantproofs, "more_launches", lambda *_: iter(()))
    assert order_claim(library, built).status == PROVEN and OrderJudge(library, built).claim(within).status == REFUTED
    for where in (orderclaim, mutantproofs):
        monkeypatch.setattr(where, "longer_loops", lambda *_: iter(()))
    claim = order_claim(library, built)
    assert claim.status == UNKNOWN and "6 matrix instructions" in claim.reason and (claim.at or "").endswith(within.original.text)
    assert OrderJudge(library, built).claim(within).status == UNKNOWN


def test_statuses() -> None:
    """Refuted fails; unknown fails where asked."""
    proofs = {status: Proof("k", "gfx950", (Claim("races", status, "all"),), 0.0) for status in (PROVEN, REFUTED, UNKNOWN)}
    assert [proofs[status].status() for status in (PROVEN, REFUTED, UNKNOWN)] == [0, 1, 0]
    assert [proofs[status].status(strict=True) for status in (PROVEN, REFUTED, UNKNOWN)] == [0, 1, 1]


def test_the_entry_that_loads_arguments_is_judged_too() -> None:
    """Firmware that preloads none begins there: with another argument in a register, its launches are wrong."""
    library = family("quantize")
    built = build_kernel(library, "gfx950", next(default_builds(library, "gfx950")), verify=False)
    contract, program = built.kernel.contract, built.kernel.program
    values = contract.resolve_run({**built.kernel.parameters, **given_launches(contract, built.kernel.parameters)[1]})
    load = next(one for one in program.instructions if one.name == "s_load_dwordx8")
    (other,) = read_text(f"{load.text.replace('s[0:1]', 's[2:3]')}\ns_endpgm\n", "gfx950")
    wrong = program.with_items(other.instructions[0] if one is load else one for one in program.items)
    counts = executed_in(built, library, values)
    ran = Ran(EdgeLaunches(contract, built.kernel.parameters, program), launched=[Launched(values, 0, 1)], counts=[counts])
    ran.launch_loaded(library, built, None, math.inf)
    assert counts[program.instructions.index(load)] == 0 and ran.loaded[0][program.instructions.index(load)]
    with pytest.raises(runclaims.Found, match="does not preload"):
        ran.launch_loaded(library, built, wrong, math.inf)


def test_launches_are_drawn_to_where_comparisons_turn() -> None:
    """Lanes 4 columns apart compare those left with 17: sides are equal for n = 17, 21, .., and next to it for 18, 22, .. alone."""
    library = family("gemm-bf16")
    contract = library.contract_of(library.select("gfx950", {}))
    build = contract.resolve_build({})
    (program,) = read_text('.amdgcn_target "amdgcn-amd-amdhsa--gfx950"\nk:\n.type k,@function\nv_cmp_lt_i32 vcc, 17, v2\ns_endpgm\n'
                           ".size k, .-k\n", None, "k", "k.s")
    edges, place = EdgeLaunches(contract, build, program), (0, "v_cmp_lt_i32")

    def launch(values: dict[str, Any]) -> None:
        apart = [17 - (values["n"] - 4 * lane) for lane in range(4)]
        edges.met(values, {(place, edge): min(apart, key=lambda one: abs(one - edge)) for edge in (0, -1)})
        edges.met(values, {((1, "v_cmp_lt_i32"), 0): 5})  # of another kernel

    launch({"m": 8, "n": 28, "k": 64})
    assert edges.left() == [(place, 0), (place, -1)] or edges.left() == [(place, -1), (place, 0)]
    sizes = []
    for values in edges.following():
        sizes.append((values["m"], values["n"]))
        launch(dict(values))
    assert not edges.left() and {n for m, n in sizes if m == 8} == {29, 30} and len(sizes) == 3


COMPARED = """s_mov_b64 s[10:11], -1
s_mov_b64 s[12:13], -2
s_mov_b32 s11, 0
s_cmp_lg_u64 s[10:11], s[12:13]
s_mov_b32 s11, -1
s_cmp_eq_u64 s[10:11], s[12:13]
s_bitcmp1_b32 s8, 5
s_cmpk_lg_u32 s8, 99
v_cmpx_ge_u32 vcc, 70, v0
v_cmp_lt_u16 vcc, 40, v0
v_cmp_lt_i64 vcc, s[12:13], v[2:3]
s_endpgm
"""


def test_how_far_apart_the_sides_of_comparisons_are() -> None:
    """2^32 - 1 and 2^64 - 2, -1 and -2, bit 5 of 100, 100 and 99, 70 and 0 to 63, 40 and these, -2 and 4 lane 2^32, 512 and 400."""
    library = family("02-row-sum")
    built = parsed_build(library.name, "gfx942")
    program = built.kernel.program
    wait = next(number for number, item in enumerate(program.items) if isinstance(item, Instruction) and item.name == "s_waitcnt") + 1
    (more,) = read_text(f"v_mov_b32 v2, 0\n{COMPARED}", "gfx942")
    longer = program.with_items([*program.items[:wait], *more.instructions[:-1], *program.items[wait:]])
    values = built.kernel.contract.resolve_run({"m": 3, "n": 100})
    nearest = run_algebra(library, built, values, 1, longer).nearest
    found = {name: (apart, nearest[place, -1 if (place, -1) in nearest else 1]) for (place, turn), apart in nearest.items()
             for _, name in [place] if turn == 0}
    assert found == {
        "s_cmp_lg_u64": (2**32 + 1,) * 2, "s_cmp_eq_u64": (1, 1), "s_bitcmp1_b32": (1, 1), "s_cmpk_lg_u32": (1, 1), "v_cmpx_ge_u32": (7, 7),
        "v_cmp_lt_u16": (0, -1), "v_cmp_lt_i64": (-2, -2), "s_cmp_lt_u32": (112, 112)}


@pytest.mark.slow
def test_workgroups_in_turn_begin_where_those_before_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that begins as if each workgroup took a group of rows is right where one takes all of them, and where each takes one group.
    Launches that share a device say what they met alone."""
    library = family("activation")
    built = parsed_build(library.name, "gfx942")
    contract, program = built.kernel.contract, built.kernel.program
    begin = next(one for one in program.instructions if one.text.startswith("s_mul_i32 s11, s10, s"))
    (new,) = read_text("s_mul_i32 s11, s10, 4\ns_endpgm\n", "gfx942")
    wrong = program.with_items(new.instructions[0] if one is begin else one for one in program.items)
    alone, several = ({"rows": 20, "each": 5}, given_launches(contract, {})[0])
    with keeping(built, read=False):
        reports = [run_algebra(library, built, contract.resolve_run(launch), 1, wrong) for launch in (alone, several)]
    assert all(report.equal for report in reports)
    assert reports[1].sides == run_algebra(library, built, contract.resolve_run(several), 1, wrong).sides != reports[0].sides
    for name in ("lengths", "repeated_rows", "repeated_edges"):
        monkeypatch.setattr(runclaims, name, lambda *given: ())
    monkeypatch.setattr(runclaims, "given_launches", lambda *given: [several])
    monkeypatch.setattr(runclaims, "strained_launches", lambda *given: ())
    claim = index_claim(library, built, 60.0, wrong)
    assert claim.status == REFUTED and claim.counterexample is not None and claim.counterexample["parameters"]["each"] > 1


@pytest.mark.parametrize(("stride", "other", "status"), [("s30", "s28", REFUTED), ("s34", "s32", REFUTED), ("s30", "s30", UNKNOWN)])
@pytest.mark.slow_after_first
def test_matrices_of_a_batch_are_where_their_strides_say(stride: str, other: str, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """B lies apart as A does, and C as D: right for a single matrix, and where strides are alike. In the twin other launches lack."""
    library = family("gemm-bf16")
    built = parsed_build(library.name, "gfx950", "tile=64x64x64", "schedule=interleave")
    program = built.kernel.program
    chosen = [one for one in program.instructions if one.name in ("s_mul_i32", "s_mul_hi_u32") and one.text.endswith(f", s4, {stride}")]
    assert len(chosen) == 2
    made = {id(one): replace(one, operands=(*one.operands[:2], s[int(other[1:])])) for one in chosen}
    wrong = program.with_items(made.get(id(item), item) for item in program.items)
    for name in ("given_launches", "lengths", "repeated_rows", "repeated_edges", "several_rounds", "several_numbers", "more_launches"):
        monkeypatch.setattr(runclaims, name, lambda *given: iter(()))
    for name in ("run_edges", "launch_strained", "launch_loaded"):
        monkeypatch.setattr(Ran, name, lambda *given: None)
    monkeypatch.setattr(runclaims, "_MAGNITUDES", ())
    claim = index_claim(library, built, 60.0, wrong)
    assert claim.status == status and (claim.counterexample or {"parameters": {"batch": 3}})["parameters"]["batch"] == 3


def test_what_is_one_by_default_is_launched_thrice_with_strides_of_its_own() -> None:
    """Matrices of a batch, and no option that takes no more workgroups; a family without any has no such launches."""
    library = family("gemm-bf16")
    built = parsed_build(library.name, "gfx950")
    contract, build = built.kernel.contract, built.kernel.parameters
    found = [contract.resolve_run({**build, **launch}) for launch in counted_launches(contract, build)]
    assert len(found) == 4 and {one["batch"] for one in found} == {3} and {one["beta"] for one in found} == {0.0, 1.0}
    for one in found:
        strides = [one[name] for name in ("lda", "ldb", "ldd", "ldc", *(f"{letter}_stride_batch" for letter in "abcd"))]
        assert len(set(strides)) == len(strides) and one["a_stride_batch"] > one["m"] * one["lda"]
    rows = parsed_build("02-row-sum", "gfx950")
    assert not [*counted_launches(rows.kernel.contract, rows.kernel.parameters)]


def test_matrices_of_a_batch_are_launched_where_whole_tiles_need_more_than_the_strides_of_one() -> None:
    """Of two tiles of 4 rows, cut and whole, where the launches of one matrix have a stride of D for fewer."""
    library, given = family("gemm-bf16"), {"tile": "4x4x512", "schedule": "dot-products"}
    contract = library.contract_of(library.select("gfx950", given), given)
    build = contract.resolve_build(given)
    found = [contract.resolve_run({**build, **launch}) for launch in counted_launches(contract, build)]
    assert {(one["m"], one["batch"]) for one in found} == {(5, 3), (8, 3)} and all(one["d_stride_batch"] > one["m"] * 4 for one in found)


def test_last_steps_are_parts_that_lanes_and_waves_share() -> None:
    """Two waves of dot-products share a step of 1024, and rows of even strides have an odd number of elements."""
    library = family("gemm-bf16")
    built = parsed_build(library.name, "gfx950", "schedule=dot-products", "tile=1x4x1024")
    contract, build = built.kernel.contract, built.kernel.parameters
    assert library.work is not None
    work, variant = library.work, library.select("gfx950", build)
    made = cut_steps(contract, build, lambda values: work(values, variant).steps.tolist())
    found = [contract.resolve_run({**build, **one}) for one in made]
    assert {1, 7, 8, 513, 519, 520} <= {int(one["k"]) for one in found} and all(one["lda"] == 1024 for one in found)


@pytest.mark.parametrize(("any_k", "cut"), [(True, {1, 8, 9, 16, 65, 72, 104, 107, 112}), (False, set[int]())])
def test_steps_of_bytes_are_cut(any_k: bool, cut: set[int]) -> None:
    """Rows as long as K begin at multiples of 16 bytes for one number of elements alone of the first ones."""
    library, build = family("gemm-fp8"), {"tile": "16x32x128", "scales": "block", "any_k": any_k}
    variant = library.select("gfx950", build)
    contract, work = library.contract_of(variant, build), library.work
    resolved = contract.resolve_build(build)
    assert work is not None
    found = [int(one["k"]) for one in cut_steps(contract, resolved, lambda values: work(values, variant).steps.tolist())]
    assert cut <= {*found} and bool(found) == any_k


def test_heads_and_batches_are_launched_thrice_with_strides_of_their_own() -> None:
    """Heads of Q share those of K, and nothing takes one stride for another. Rows that tiles divide are no such sizes."""
    contract, build = (library := family("attention-forward")).contract("gfx950", {}), library.contract("gfx950", {}).resolve_build({})
    (launch,) = counted_launches(contract, build)
    values = contract.resolve_run({**build, **launch})
    assert (values["b"], values["hq"], values["hkv"]) == (3, 6, 3) and values["sq"] < 256
    strides = [value for name, value in values.items() if "_stride_" in name and name != "o_stride_h"]
    assert len(set(strides)) == len(strides) == 11


def test_what_is_a_size_by_default_is_moved_after_sizes() -> None:
    """A comparison with ldd turns where rows of D are next to one another, or an element apart."""
    library = family("gemm-bf16")
    contract = library.contract_of(library.select("gfx950", {}))
    build = contract.resolve_build({})
    (program,) = read_text('.amdgcn_target "amdgcn-amd-amdhsa--gfx950"\nk:\n.type k,@function\ns_cmp_eq_u32 s0, s1\ns_endpgm\n'
                           ".size k, .-k\n", None, "k", "k.s")
    edges, place, tried = EdgeLaunches(contract, build, program), (0, "s_cmp_eq_u32"), list[dict[str, Any]]()

    def launch(values: dict[str, Any]) -> None:
        tried.append(values)
        edges.met(values, {(place, 0): contract.resolve_run({**build, **values})["ldd"] - 47})

    launch({"m": 8, "n": 40, "k": 64})
    for values in edges.following():
        launch(dict(values))
    assert not edges.left() and "ldd" not in tried[1] and any(one.get("ldd") == 47 or one["n"] == 47 for one in tried)


def test_what_launches_tell_of_mutants_that_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round more reads zeros beyond a row's end, which a row of 64 columns shows. Without a search for such rows that is not told. Rows
    twice as long are other ones at that edge; the register that the last part's address is in feeds the comparison no more."""
    library = family("02-row-sum")
    built = parsed_build(library.name, "gfx942")
    program, met = built.kernel.program, MetEdges(library, built)

    def mutant(begin: str, text: str) -> Mutant:
        old = next(one for one in program.instructions if one.text.startswith(begin))
        (new,) = read_text(f"{text}\ns_endpgm\n", "gfx942")
        return Mutant("edge", text, old, program.with_items(new.instructions[0] if one is old else one for one in program.items))

    round_more, longer = mutant("s_cmp_lt_u32", "s_cmp_le_u32 s3, s14"), mutant("s_lshl_b32 s14", "s_lshl_b32 s14, s8, 3")
    stored = mutant("s_lshl_b32 s3, s2", "s_lshl_b32 s3, s2, 3")
    (floats,) = read_text("v_cmp_lt_f32 vcc, v1, v2\nv_cmp_lt_u32 vcc, v1, v2\nv_add_f32 v1, v1, v2\ns_endpgm\n", "gfx942")
    assert [*map(compares_floats, floats.instructions)] == [True, False, False, False]
    assert met.status(round_more) == (EQUIVALENT, "") and met.status(longer)[0] == PROVEN and "other bits" in met.status(longer)[1]
    order, tiny = OrderJudge(library, built), mutant("v_mov_b32 v1, 0", "v_mov_b32 v1, 1")  # the least denormal, which sums round away
    assert changes_no_bit(round_more, met, order) == (EQUIVALENT, "") and changes_no_bit(tiny, met, order)[0] == SAME_BITS
    (comparison,) = (number for number, one in enumerate(program.instructions) if one.name == "s_cmp_lt_u32")
    assert [fed_comparisons(program, one) for one in (round_more, longer, stored)] == [{comparison}, {comparison}, frozenset()]
    monkeypatch.setattr("asmgen.tools.proofs.edgelaunches._MOST", 0)
    status, why = MetEdges(library, built).status(round_more)
    assert status == NOT_TOLD and "s_cmp_lt_u32 s3, s14" in why


@pytest.mark.slow
def test_rows_that_waves_take_one_after_another_go_round() -> None:
    """norm's launches of few rows never come to a wave's second row: `each` makes them. Without the upper half of the step from row to row,
    the second one wraps for large strides alone."""
    library = family("norm")
    built = parsed_build(library.name, "gfx942")
    program = built.kernel.program
    step = next(one for one in program.instructions if one.name == "s_mul_hi_u32" and one.operands[2] == 8)
    (none,) = read_text(f"s_mov_b32 {step.operands[0]}, 0\ns_endpgm\n", "gfx942")
    wrong = program.with_items(none.instructions[0] if one is step else one for one in program.items)
    claim = index_claim(library, built, 60.0, wrong)
    assert claim.status == REFUTED and "wraps" in claim.reason
    assert never_round(program, [executed_in(built, library, {"rows": 5})])
    assert not never_round(program, [executed_in(built, library, {"rows": 9, "each": 9})])


def executed_in(built: Built, library: Family, launch: dict[str, Any]) -> tuple[int, ...]:
    values = built.kernel.contract.resolve_run({**built.kernel.parameters, **launch})
    return run_addresses(library, built, values).launch.counts
