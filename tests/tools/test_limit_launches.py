"""Addresses at a contract's limits: right kernels do not wrap there, the same kernels under a wider contract do, and a launch shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest

from asmgen.emulator.terms.decisions import Decision
from asmgen.kernels.registry import family
from asmgen.program.program import Instruction, Program
from asmgen.reader.assembly import read_text
from asmgen.tools.proofs.actinglaunches import acting_launches, given_numbers, longer_launches
from asmgen.tools.proofs.addressclaim import launches_lacking
from asmgen.tools.proofs.addressrun import run_addresses
from asmgen.tools.proofs.contractlimits import greatest_grid, limit_launches
from asmgen.tools.proofs.guards import Guards
from asmgen.tools.proofs.limitlaunches import SIDE, TURN, WAY, LimitCheck, SeenAtLimits, Wrap
from asmgen.tools.proofs.proof import PROVEN, REFUTED
from asmgen.tools.proofs.proofclasses import steady
from asmgen.tools.proofs.runclaims import index_claim
from asmgen.tools.proofsweep import default_builds
from asmgen.tools.running.build import Built, build_kernel

CASES = [("gemm-bf16", "ldd", {"m": 130, "n": 40, "k": 64}), ("norm", "x_stride", {"rows": 5}),
         ("gemm-bf16", "ldc", {"m": 130, "n": 140, "k": 64, "beta": 1.0})]  # without beta the buffer of C has no bytes


@cache
def plain(name: str, arch: str) -> Built:
    """The default build."""
    return build_kernel(family(name), arch, {}, verify=False)


def widened(built: Built, name: str) -> Built:
    """The kernel under a contract that allows any 32-bit number for one stride, whatever rules said."""
    contract = built.kernel.contract
    parameters = tuple(replace(one, maximum=(1 << 32) // 8 * 8 - 8) if one.name == name else one for one in contract.parameters)
    rules = tuple(rule for rule in contract.rules if name not in rule.reads)
    return replace(built, kernel=replace(built.kernel, contract=replace(contract, parameters=parameters, rules=rules)))


@pytest.mark.parametrize("name, stride, sizes", CASES)
@pytest.mark.slow
def test_wider_contracts_wrap(name: str, stride: str, sizes: dict[str, Any]) -> None:
    library = family(name)
    right = plain(library.name, "gfx950")
    for built, wraps in ((right, False), (widened(right, stride), True)):
        contract, build = built.kernel.contract, built.kernel.parameters
        report = run_addresses(library, built, contract.resolve_run({**build, **sizes}))
        found = LimitCheck(report, contract, build).wrap()
        assert isinstance(found, Wrap) == wraps, found
        if isinstance(found, Wrap):
            assert found.parameters[stride] > sizes.get("n", 0) and found.off % (1 << 32) == 0 and found.off


@pytest.mark.slow
def test_tensors_that_cannot_exist_do_not_wrap() -> None:
    """The scales' matrices are m x (k / 128) floats apart, in 32 bits: a wrap needs an A of 512 GiB."""
    library = family("gemm-fp8")
    built = build_kernel(library, "gfx950", {"tile": "16x32x128", "schedule": "in-order", "scales": "block"}, verify=False)
    contract, build = built.kernel.contract, built.kernel.parameters
    report = run_addresses(library, built, contract.resolve_run({**build, "m": 20, "n": 46, "k": 640}))
    assert LimitCheck(report, contract, build).wrap() is None


FAULTS = {
    "a carry that is dropped": ("s_addc_u32", "s_add_u32 s13, s13, s5\n"),
    "a product of 24 bits": ("s_lshl_b32 s3, s2, 2", "v_mov_b32 v4, 4\nv_mul_u32_u24 v4, s2, v4\ns_nop 1\nv_readfirstlane_b32 s3, v4\n")}


@pytest.mark.parametrize("fault", FAULTS)
def test_where_a_tensor_begins_and_factors_of_24_bits_count(fault: str) -> None:
    """A tensor may begin just below a multiple of 4 GiB; 02-row-sum allows 2^30 rows."""
    library = family("02-row-sum")
    built = plain(library.name, "gfx942")
    contract, build, program = built.kernel.contract, built.kernel.parameters, built.kernel.program
    begin, text = FAULTS[fault]
    old = next(one for one in program.instructions if one.text.startswith(begin))
    (new,) = read_text(f"{text}s_endpgm\n", "gfx942")
    wrong = program.with_items(item for one in program.items for item in (new.instructions[:-1] if one is old else (one,)))
    for judged, wraps in ((None, False), (wrong, True)):
        found = LimitCheck(run_addresses(library, built, contract.resolve_run({**build, "m": 3, "n": 64}), program=judged), contract, build)
        assert isinstance(found.wrap(), Wrap) == wraps


_NEWTON = "s_add_u32 s90, s2, 5\nv_cvt_f32_u32_e32 v4, s90\nv_rcp_iflag_f32_e32 v4, v4\nv_mul_f32_e32 v4, 0x4f7ffffe, v4\n" \
    "v_cvt_u32_f32_e32 v4, v4\ns_nop 1\nv_readfirstlane_b32 s91, v4\n{}s_sub_u32 s92, 0, s90\ns_mul_i32 s92, s92, s91\n" \
    "s_mul_hi_u32 s92, s92, s91\ns_add_u32 s91, s91, s92\ns_mul_hi_u32 s90, s2, s91\ns_lshl_b32 s3, s2, 2\ns_add_u32 s3, s3, s90\n"
_BACK = "s_sub_u32 s90, s2, 5\ns_add_u32 s92, s2, 3\ns_mul_hi_u32 s91, s90, s92\ns_ashr_i32 s90, s90, 31\n" \
    "s_and_b32 s90, s90, s92\n{}s_and_b32 s91, s91, 0xffff\ns_min_u32 s91, s91, 3\ns_lshl_b32 s3, s2, 2\ns_add_u32 s3, s3, s91\n"
_LARGEST = "s_lshl_b32 s90, s2, {}\ns_cmp_gt_u32 s2, 7\ns_cselect_b32 s90, s90, -1\ns_cmp_ge_u32 s2, s90\ns_cselect_b32 s90, 4, 0\n" \
    "s_lshl_b32 s3, s2, 2\ns_add_u32 s3, s3, s90\n"
RIGHT = {"": "s_lshl_b32 s3, s2, 1\ns_max_u32 s3, s3, 1\ns_lshr_b32 s3, s3, 1\ns_lshl_b32 s3, s3, 2\n",
         "a row divided by its number and 5": _NEWTON.format(""), "a factor below 0": _BACK.format("s_sub_u32 s91, s91, s90\n"),
         "-1 is the largest": _LARGEST.format(1)}
INNER = {
    "a product that is shifted": "s_mul_i32 s3, s2, 128\ns_lshr_b32 s3, s3, 5\n",
    "a larger number": "s_lshl_b32 s3, s2, 6\ns_max_u32 s3, s3, 1\ns_lshr_b32 s3, s3, 6\ns_lshl_b32 s3, s3, 2\n",
    "an estimate of another number's reciprocal": _NEWTON.format("s_add_u32 s90, s90, 1\n"), "no sign is taken": _BACK.format(""),
    "beside -1": _LARGEST.format(6), **RIGHT}


@pytest.mark.parametrize("fault", INNER)
def test_what_wraps_before_a_shift_or_in_a_function_is_unknown(fault: str) -> None:
    """Rows from 2^25 on are stored where others are; times 2 their number does not wrap. Steps of Newton's method, a sign that is
    taken away and the constant -1 mean a wrap."""
    library = family("02-row-sum")
    built = plain(library.name, "gfx942")
    contract, build, program = built.kernel.contract, built.kernel.parameters, built.kernel.program
    old = next(one for one in program.instructions if one.text.startswith("s_lshl_b32 s3, s2, 2"))
    (new,) = read_text(f"{INNER[fault]}s_endpgm\n", "gfx942")
    wrong = program.with_items(item for one in program.items for item in (new.instructions[:-1] if one is old else (one,)))
    values = contract.resolve_run({**build, "m": 3, "n": 64})
    found = LimitCheck(run_addresses(library, built, values, program=wrong), contract, build).wrap()
    assert found is None if fault in RIGHT else "wraps before" in str(found)


@pytest.mark.parametrize("records, wraps", [
    ("s_mov_b32 s14, 0x400", Wrap), ("s_mov_b32 s14, 0", None), ("s_add_u32 s14, s10, 1\ns_mul_i32 s14, s14, s14", str)])
def test_one_access_in_range_is_enough(records: str, wraps: type[object] | None) -> None:
    """Elements of the last workgroup are read as the first 256: of two loads by one register, the buffer's end leaves out the former. Where
    that end wraps too, both should be read and are left out."""
    library = family("01-vector-add")
    built = plain(library.name, "gfx942")
    contract, program = built.kernel.contract, built.kernel.program
    text = f"s_add_u32 s2, s2, 1\nv_mov_b32 v1, 0x800\nv_mul_lo_u32 v1, s2, v1\nv_lshl_add_u32 v1, v0, 2, v1\n" \
           f"s_waitcnt lgkmcnt(0)\n{records}\ns_mov_b64 s[12:13], s[4:5]\ns_mov_b32 s15, 0x20000\n" \
           "buffer_load_dword v3, v1, s[12:15], 0 offen offset:1024\nbuffer_load_dword v2, v1, s[12:15], 0 offen\ns_endpgm\n"
    (new,) = read_text(text, "gfx942")
    wrong = program.with_items([*(one for one in program.items if isinstance(one, Instruction) and "s_load" in one.name), *new.items])
    values = contract.resolve_run({**built.kernel.parameters, "n": 100})
    found = LimitCheck(run_addresses(library, built, values, program=wrong), contract, built.kernel.parameters).wrap()
    assert found is None if wraps is None else isinstance(found, wraps)
    assert not isinstance(found, str) or "beyond the buffer's end" in found


_ROW = "s_lshl_b32 s3, s3, 2\n"
_LANE = f"v_mov_b32 v4, s2\n{{}}s_nop 1\nv_readfirstlane_b32 s3, v4\n{_ROW}"
_FIELDS = f"s_and_b32 s90, s2, {{}}\ns_and_b32 s91, s2, 1\ns_or_b32 s3, s90, s91\n{_ROW}"
_BORROW = f"s_sub_u32 s90, s2, {{}}\ns_subb_u32 s90, 0, 0\ns_and_b32 s3, s2, s90\n{_ROW}"
_BYTE = "v_cvt_f32_ubyte0 v4, v4\nv_cvt_u32_f32 v4, v4\n"
IDLE = {
    "a mask": f"s_and_b32 s3, s2, 0x7fff\n{_ROW}", "a mask of bytes": "s_lshl_b32 s3, s2, 12\ns_and_b32 s3, s3, 0xffff0\n",
    "a bit that is cleared": f"s_mov_b32 s3, s2\ns_bitset0_b32 s3, 20\n{_ROW}", "its contrary": f"s_andn2_b32 s3, s2, 0x100000\n{_ROW}",
    "a mask with holes": f"s_and_b32 s3, s2, 0xff0ff0ff\n{_ROW}", "with many": f"s_and_b32 s3, s2, 0x555550ff\n{_ROW}",
    "one hole of two": _FIELDS.format("0xffeffffe"), "a mask, twice": f"s_and_b32 s3, s2, 0x555550ff\ns_and_b32 s3, s3, 0x555550ff\n{_ROW}",
    "a minimum": f"s_min_u32 s3, s2, 0x100000\n{_ROW}", "of lanes": _LANE.format("v_min_i32 v4, 0x100000, v4\n"),
    "a row that wraps at 2^20": f"s_lshr_b32 s90, s2, 20\ns_lshl_b32 s90, s90, 20\ns_sub_u32 s3, s2, s90\n{_ROW}",
    "a bit that is set and taken away": f"s_or_b32 s3, s2, 0x100000\ns_sub_u32 s3, s3, 0x100000\n{_ROW}",
    "a bit that is turned": f"s_xor_b32 s3, s2, 0x100000\ns_sub_u32 s3, s3, 0x100000\n{_ROW}",
    "a choice of bits": _LANE.format("v_mov_b32 v5, 0xfffff\nv_bfi_b32 v4, v5, v4, 0\n"),
    "a choice of bytes": _LANE.format("v_mov_b32 v5, 0x0c020100\nv_perm_b32 v4, v4, v4, v5\n"),
    "a quotient that is taken away": f"s_mul_hi_u32 s90, s2, 4096\ns_sub_u32 s3, s2, s90\n{_ROW}",
    "a selection": f"s_mov_b32 s90, 0x100000\ns_cmp_lt_u32 s2, s90\ns_cselect_b32 s3, s2, s90\n{_ROW}",
    "a move": f"s_mov_b32 s3, s2\ns_cmp_gt_u32 s2, 0x100000\ns_cmov_b32 s3, 0\n{_ROW}",
    "a truth that is added": f"s_lshr_b32 s3, s2, 1\ns_cmp_gt_u32 s2, 0x100000\ns_addc_u32 s3, s3, s3\n{_ROW}",
    "a borrow": _BORROW.format("0x100000"), "a byte as a float": _LANE.format(_BYTE),
    "a minimum of floats": _LANE.format("v_cvt_f32_u32 v4, v4\nv_mov_b32 v5, 0x49800000\nv_min_f32 v4, v4, v5\nv_cvt_u32_f32 v4, v4\n")}
ACTS = {
    "a mask of all rows": f"s_and_b32 s3, s2, 0x3fffffff\n{_ROW}", "a bit of no row": f"s_mov_b32 s3, s2\ns_bitset0_b32 s3, 31\n{_ROW}",
    "a hole that launches have": _FIELDS.format(-2), "a minimum that no row exceeds": f"s_min_u32 s3, s2, 0x40000000\n{_ROW}",
    "the last bit alone": f"s_and_b32 s3, s2, 1\n{_ROW}", "a borrow of all rows": _BORROW.format("0x40000000"),
    "a borrow that some rows lack": _BORROW.format(2),
    "a selection that all rows make": f"s_cmp_lt_u32 s2, 0x40000000\ns_cselect_b32 s3, s2, 0\n{_ROW}",
    "a selection that some make": f"s_cmp_lt_u32 s2, 2\ns_cselect_b32 s3, s2, 8\n{_ROW}",
    "a bit as a float": _LANE.format(f"v_and_b32 v4, 1, v4\n{_BYTE}")}


@pytest.mark.parametrize("name", [*IDLE, *ACTS])
def test_what_did_nothing_in_a_launch_and_does_something_at_limits_is_unknown(name: str) -> None:
    """Rows beyond those of launches, of which there may be 2^30, are stored where others are. What acts in a launch that is right, the
    code means."""
    judged = with_row({**IDLE, **ACTS}[name], 3).judged
    assert (judged.idle() is not None) == (name in IDLE)


def test_what_a_launch_of_few_rows_shows_a_longer_one_does() -> None:
    """Rows 0 and 1 have no bit but the last one. Launches together show what one does not, in each order; which one would is found."""
    last = ACTS["the last bit alone"]
    check = with_row(last, 2)
    met = check.meeting([{"m": rows, "n": 64} for rows in (1, 2, 3, 4)], check.lacks({}))
    assert check.judged.idle() and [one.tolist() for one in met.values()] == [[False, False, True, True]]
    assert not with_row(last, 3, check.judged).judged.idle() and not check.lacks({})
    assert not with_row(last, 2, with_row(last, 3).judged).judged.idle()


_LACKS = "s_max_u32 s91, s2, 40\ns_sub_u32 s91, s91, 40\ns_add_u32 s3, s3, s91\n"


@pytest.mark.parametrize(("more", "status"), [(_LACKS, PROVEN), ("", REFUTED)])
def test_what_did_nothing_asks_for_a_launch_in_which_it_acts(more: str, status: str) -> None:
    """A minimum of 40 acts where there are more rows than launches have by themselves. The right twin adds what lacks of the others."""
    judged = other_rows(f"s_min_u32 s3, s2, 40\n{more}{_ROW}")[1]
    library = family("02-row-sum")
    claim = index_claim(library, plain(library.name, "gfx942"), 60.0, judged)
    assert claim.status == status and (status == PROVEN or (claim.counterexample or {})["parameters"]["m"] > 40)


@pytest.mark.slow
def test_launches_that_are_made_change_few_numbers_first() -> None:
    """They fit, none is one of the bases, and two numbers change together."""
    built = plain("gemm-bf16", "gfx950")
    contract, build = built.kernel.contract, built.kernel.parameters
    base = contract.resolve_run({**build, "m": 64, "n": 64, "k": 64})
    made = list(islice(acting_launches(contract, build, [base], lambda values: values["k"] <= 256), 3000))
    found = [contract.resolve_run({**build, **one}) for one in made]
    changed = [{name for name in ("m", "n", "k", "batch") if one[name] != base[name]} for one in found]
    assert len(changed[0]) == 1 and {"m", "k"} in changed and all(one["k"] <= 256 for one in found) and base not in found
    assert 8 * base["n"] in {one["n"] for one in found}, "scales have tiles of tiles"
    assert max(map(len, changed)) > 2 and len({tuple(sorted(one.items())) for one in found}) == len(found)


def test_launches_come_where_a_base_does_after_more_rounds() -> None:
    """A tail of 5 after a whole step, with strides that its odd length needs, and other numbers as in the short launch."""
    built = build_kernel(family("gemm-bf16"), "gfx950", {"tile": "1x4x1024", "schedule": "dot-products"}, verify=False)
    contract, build = built.kernel.contract, built.kernel.parameters
    short, base, whole = (contract.resolve_run({**build, **one}) for one in (
        {"m": 1, "n": 2, "k": 8}, {"m": 300, "n": 40, "k": 5, "lda": 16, "ldb": 16, "beta": 2.0}, {"m": 7, "n": 8, "k": 64}))
    longer = list(longer_launches(contract, short, [base], [whole]))
    found = [{name: one[name] for name in ("m", "n", "k", "lda") if name in one} for one in longer]
    assert {"m": 1, "n": 2, "k": 69, "lda": 80} in found and {"m": 300, "n": 40, "k": 69, "lda": 80} in found
    assert {one["beta"] for one in longer} == {2.0}, "code that reads C runs by beta alone"
    assert {"m": 307, "n": 2, "k": 8} in found and not list(longer_launches(contract, short, [], [whole]))
    made = list(islice(acting_launches(contract, build, [short], lambda values: values["k"] < 70, longer), 100))
    assert made[0] in longer and all(one["k"] < 70 for one in made)
    assert given_numbers(contract, whole).keys().isdisjoint({"lda", "ldb"}) and "batch" in given_numbers(contract, whole)
    assert given_numbers(contract, base)["lda"] == 16, "rows of 5 elements do not begin at even ones"


def test_launches_are_made_first_of_one_that_came_to_an_access() -> None:
    lacks = {"turns": (TURN,), "both": (TURN, WAY), "side": (SIDE,), "way": (WAY,)}
    checks: Any = [(SimpleNamespace(report=SimpleNamespace(parameters=name)), {(kind, name): None for kind in kinds})
                   for name, kinds in lacks.items()]
    assert launches_lacking(checks, WAY, TURN) == ["both", "way", "turns"]
    assert launches_lacking(checks, SIDE, TURN) == ["side", "turns", "both"]


@pytest.mark.slow
def test_sizes_that_were_alike_and_axes_of_one_workgroup_are_unknown() -> None:
    """A tile of 64 x 64 tells rows from columns no more than an only workgroup its number. Launches of the claim have other ones."""
    library = family("03-transpose")
    built = plain(library.name, "gfx950")
    contract, build, program = built.kernel.contract, built.kernel.parameters, built.kernel.program
    for m, n, idle in ((64, 64, True), (128, 128, True), (64, 192, True), (128, 192, False)):
        check = LimitCheck(run_addresses(library, built, contract.resolve_run({**build, "m": m, "n": n})), contract, build)
        assert check.wrap() is None and (check.judged.idle() is not None) == idle
    columns, rows = (one for one in program.instructions if one.name == "s_mul_i32" and not isinstance(one.operands[2], int))
    alike = replace(columns, operands=(*columns.operands[:2], rows.operands[2]))
    wrong = program.with_items(alike if one is columns else one for one in program.items)
    assert [index_claim(library, built, 60.0, judged).status for judged in (program, wrong)] == [PROVEN, REFUTED]


def test_waves_without_lanes_show_that_a_row_is_limited() -> None:
    """Those of rows after the second one store nothing, as those beyond a tile's end do. Where no wave is limited, that is not shown."""
    for rows, idle in ((3, False), (2, True)):
        check = with_row(f"s_min_u32 s3, s2, 1\n{_ROW}", rows, behind="s_cmp_gt_u32 s2, 1\ns_cselect_b64 exec, 0, exec\n")
        assert (check.judged.idle() is not None) == idle


@pytest.mark.parametrize(("lane", "known"), [("s2", False), ("5", True), ("s90", True)])
def test_a_lane_that_sizes_choose_has_no_formula(lane: str, known: bool) -> None:
    """Workgroups read the lane of their number: the formula of one lane is not that of others."""
    code = f"v_mov_b32 v4, s2\ns_mov_b32 s90, 7\ns_nop 3\nv_readlane_b32 s3, v4, {lane}\n{_ROW}"
    stores = [one for one in with_row(code, 3).report.sequences if one.instruction.name.startswith("global_store")]
    assert stores and all(one.known == known for one in stores)


def other_rows(code: str, behind: str = "") -> tuple[Built, Program]:
    """02-row-sum, and its program with other code for where a row's sum is stored, and for which lanes store it."""
    built = plain("02-row-sum", "gfx942")
    program = built.kernel.program
    old = next(one for one in program.instructions if one.text.startswith("s_lshl_b32 s3, s2, 2"))
    (new,) = read_text(f"{code}s_endpgm\n", "gfx942")
    lanes = next(one for one in program.instructions if one.name == "s_bfm_b64")
    (more,) = read_text(f"{behind}s_endpgm\n", "gfx942")
    other = {id(old): new.instructions[:-1], id(lanes): (lanes, *more.items[:-1])}
    return built, program.with_items(item for one in program.items for item in other.get(id(one), (one,)))


def with_row(code: str, rows: int, judged: SeenAtLimits | None = None, behind: str = "") -> LimitCheck:
    """Of that program, in a launch of some rows."""
    built, wrong = other_rows(code, behind)
    library, contract, build = family("02-row-sum"), built.kernel.contract, built.kernel.parameters
    values = contract.resolve_run({**build, "m": rows, "n": 64})
    check = LimitCheck(run_addresses(library, built, values, program=wrong), contract, build, judged)
    assert check.wrap() is None
    return check


def test_rows_of_a_descriptor_are_not_followed() -> None:
    library = family("01-vector-add")
    built = plain(library.name, "gfx942")
    program = built.kernel.program
    old = next(one for one in program.instructions if one.name == "buffer_store_dword")
    (new,) = read_text(f"{old.text.replace('offen', 'idxen')}\ns_endpgm\n", "gfx942")
    rows = program.with_items(new.instructions[0] if one is old else one for one in program.items)
    values = built.kernel.contract.resolve_run({**built.kernel.parameters, "n": 100})
    assert [one.instruction.name for one in run_addresses(library, built, values, program=rows).unknown()] == ["buffer_store_dword"]


@pytest.mark.slow
def test_a_branch_keeps_far_rows_from_wide_stores() -> None:
    """Where rows lie so far apart that offsets of a tile wrap, a branch leads around its wide stores: it leaves a flag 0. Without it, they
    wrap."""
    library = family("gemm-bf16")
    built = build_kernel(library, "gfx950", next(default_builds(library, "gfx950")), verify=False)
    contract, build = built.kernel.contract, built.kernel.parameters
    values = contract.resolve_run({**build, "m": 128, "n": 128, "k": 256})
    program = built.kernel.program
    report = run_addresses(library, built, values)
    assert any(one.instruction.name == "buffer_store_dwordx4" for one in report.sequences)
    check = LimitCheck(report, contract, build)
    assert check.wrap() is None and check.judged.unseen() is None
    around = [one for one in program.instructions if one.name == "s_cbranch_scc1" and "no_ending" in (one.target or "")]
    assert len(around) == 2
    flag = next(one for one in reversed(program.instructions[:program.instructions.index(around[0])]) if one.name == "s_mov_b32")
    set_always = program.with_items(replace(one, operands=(one.operands[0], 1)) if one is flag else one for one in program.items)
    check = LimitCheck(run_addresses(library, built, values, program=set_always), contract, build)
    assert check.wrap() is None and check.judged.unseen() is not None, "with its flag set, the branch leads to the wide stores too"
    computed = program.with_items([*program.items, *read_text("s_setpc_b64 s[0:1]\n", program.arch)[0].items])
    found = LimitCheck(run_addresses(library, built, values, program=computed), contract, build).wrap()
    assert isinstance(found, str) and "computed addresses" in found
    always = program.with_items(item for item in program.items if item is not around[1])
    found = LimitCheck(run_addresses(library, built, values, program=always), contract, build).wrap()
    assert isinstance(found, Wrap) and found.sequence.instruction.name == "buffer_store_dwordx4"


FAR = 0x1000
JUMP = "s_cmp_gt_u32 s90, {far}\ns_cbranch_scc1 over{number}\ns_nop 0\nover{number}:\n"


def with_jumps(program: Program, where: Callable[[Instruction], bool], text: str = JUMP) -> Program:
    """With a branch over an s_nop, for far rows of D, or other text, in front of some instructions. s90 keeps ldd, which its register does
    not."""
    ldd = next(one.operands[1] for one in program.instructions if one.name == "s_mul_i32" and one.operands[2] == 2)
    items: list[Any] = []
    for item in program.items:
        wait = isinstance(item, Instruction) and item.name == "s_waitcnt" and not any("s90" in str(one) for one in items)
        added = text.format(far=FAR, number=len(items), ldd=f"s{ldd.index}") if isinstance(item, Instruction) and where(item) else ""
        items += read_text(f"{added}s_endpgm\n", program.arch)[0].items[:-1]
        items.append(item)
        items += read_text(f"s_mov_b32 s90, s{ldd.index}\ns_endpgm\n", program.arch)[0].items[:-1] if wait else []
    return program.with_items(items)


def unseen(check: LimitCheck) -> list[str]:
    """The branches that legal launches need otherwise."""
    return [texts[1] for way, texts in check.judged.needed.items() if way not in check.judged.ways]


@pytest.mark.slow
def test_branches_that_do_not_keep_waves_from_a_store() -> None:
    """Such behind the stores lead to none of them. One in front, from which both ways lead to them, leaves open what a wave does that goes
    the other way, until a launch does."""
    _, stride, sizes = CASES[0]
    library = family("gemm-bf16")
    built = widened(plain(library.name, "gfx950"), stride)
    contract, build, program = built.kernel.contract, built.kernel.parameters, built.kernel.program
    values = contract.resolve_run({**build, **sizes})
    behind = with_jumps(program, lambda one: one.name == "s_endpgm")
    late = run_addresses(library, built, values, program=behind)
    assert isinstance(LimitCheck(late, contract, build).wrap(), Wrap)
    multiplied = next(one for one in program.instructions if one.name == "s_mul_i32" and one.operands[2] == 2)
    front = with_jumps(program, lambda one: one is multiplied)
    near = LimitCheck(run_addresses(library, built, values, program=front), contract, build)
    assert near.wrap() is None and any(text.startswith("s_cbranch_scc1 over") for text in unseen(near))
    far = contract.resolve_run({**build, **sizes, stride: FAR + 8})
    met = [one.tolist() for lack, one in near.meeting([values, far], near.lacks({})).items() if lack[0] == WAY]
    assert [False, True] in met and [True, True] not in met and [True, False] not in met
    for sources, wraps in (("40, {ldd}", False), ("{ldd}, 40", True)):
        chosen = with_jumps(program, lambda one: one is multiplied, f"s_cmp_gt_u32 s90, {{far}}\ns_cselect_b32 {{ldd}}, {sources}\n")
        report = run_addresses(library, built, values, program=chosen)
        assert set(map(frozenset, report.decisions.selected.values())) >= {frozenset({False})}
        check = LimitCheck(report, contract, build)
        met = check.meeting([values, far], check.lacks(report.decisions.selected))
        assert [False, True] in [one.tolist() for lack, one in met.items() if lack[0] == SIDE]
        found = check.wrap()
        assert isinstance(found, Wrap) == wraps, "rows of 40 do not wrap, others do, whatever this launch selects"
    assert "the time was over" in str(LimitCheck(late, contract, build).wrap(0.0))
    assert isinstance(LimitCheck(run_addresses(library, built, far, program=front), contract, build, near.judged).wrap(), Wrap)
    assert not any(text.startswith("s_cbranch_scc1 over") for text in unseen(near))


ROUNDS = """
loop:
s_cmp_gt_u32 s1, 16
s_cbranch_scc1 over
s_nop 0
over:
s_sub_u32 s0, s0, 1
s_cmp_lg_u32 s0, 0
s_cbranch_scc1 loop
s_endpgm
"""
EXIT = ROUNDS.replace("s_endpgm", "s_nop 1\nover:\ns_endpgm").replace("over:\ns_sub", "s_sub")


@pytest.mark.parametrize("text, nop, far, leading", [
    (ROUNDS, "s_nop 0", (False, False, False), "0, 2 1, 4 1 3"), (ROUNDS, "s_nop 0", (False, True, False), ", 1, 1 3"),
    (EXIT, "s_nop 0", (False, False, False), "0, 2 0 1, 4 0 1 2 3"), (EXIT, "s_nop 1", (False, False, False), ", , ")])
def test_a_branch_of_each_round_leads_where_all_go_one_way(text: str, nop: str, far: tuple[bool, ...], leading: str) -> None:
    """What rows say in each round guards what the round does; what leaves the loop guards what later rounds do. After the loop nothing
    guards: other sizes come there after fewer rounds. Each wave meets branches 0 and 1, then 2 and 3, then 4 and 5."""
    (program,) = read_text(text, "gfx950")
    over, again = (one for one in program.instructions if one.name == "s_cbranch_scc1")
    (here,) = (one for one in program.instructions if one.text == nop)
    met = [pair for number, held in enumerate(far) for pair in ((over, held), (again, number < len(far) - 1))]
    known = [(number, Decision(one, "s_cmp_gt_u32", (((((), number + 1),)), ()), held)) for number, (one, held) in enumerate(met)]
    decisions = SimpleNamespace(by_wave={0: [(one, ("s_cmp_gt_u32", 1, 1), held) for one, held in met]}, of=lambda wave: known)
    report = SimpleNamespace(program=program, decisions=decisions, met={(id(here), 0): [1, 3, 5]})
    guards = Guards(report)  # type: ignore[arg-type]
    found = [" ".join(str(one.parts[0][0][1] - 1) for one in guards.of(here, 0, place)) for place in range(len(far))]
    assert found == leading.split(", ")


@pytest.mark.parametrize("rounds, wraps", [("s90, s8", False), ("s92, s8", True)])
def test_rows_that_a_wave_takes_in_turn_wrap_where_it_goes_on(rounds: str, wraps: bool) -> None:
    """There are up to 2^30 rows of 4 bytes. A wave whose row is beyond n leaves before a row wraps; one that counts n rounds does not."""
    library = family("02-row-sum")
    built = plain(library.name, "gfx942")
    contract, program = built.kernel.contract, built.kernel.program
    text = "s_waitcnt lgkmcnt(0)\ns_mov_b32 s90, s2\ns_mov_b32 s92, 0\nnext:\ns_lshl_b32 s91, s90, 2\nv_mov_b32 v1, s91\n" \
           "global_load_dword v3, v1, s[4:5]\ns_add_u32 s90, s90, 1\ns_add_u32 s92, s92, 1\n" \
           f"s_cmp_lt_u32 {rounds}\ns_cbranch_scc1 next\ns_endpgm\n"
    (new,) = read_text(text, "gfx942")
    changed = program.with_items([*(one for one in program.items if isinstance(one, Instruction) and "s_load" in one.name), *new.items])
    values = contract.resolve_run({**built.kernel.parameters, "m": 4, "n": 100})
    found = LimitCheck(run_addresses(library, built, values, program=changed), contract, built.kernel.parameters).wrap()
    assert isinstance(found, Wrap) == wraps


def test_launches_for_a_way_come_to_its_branch() -> None:
    """Long rows let an address wrap and turn a branch, which rows of one length go around: these are no launch that turns it."""
    library = family("02-row-sum")
    built = plain(library.name, "gfx942")
    contract, build, program = built.kernel.contract, built.kernel.parameters, built.kernel.program
    text = "s_waitcnt lgkmcnt(0)\ns_cmp_eq_u32 s8, 5000\ns_cbranch_scc1 around\ns_cmp_gt_u32 s8, 1000\ns_cbranch_scc1 over\ns_nop 0\n" \
           "over:\ns_nop 1\naround:\ns_lshl_b32 s91, s8, 4\nv_mov_b32 v1, s91\nglobal_load_dword v3, v1, s[4:5]\ns_endpgm\n"
    (new,) = read_text(text, "gfx942")
    changed = program.with_items([*(one for one in program.items if isinstance(one, Instruction) and "s_load" in one.name), *new.items])
    launches = [contract.resolve_run({**build, "m": 4, "n": n}) for n in (100, 1200, 5000)]
    check = LimitCheck(run_addresses(library, built, launches[0], program=changed), contract, build)
    assert check.wrap() is None and unseen(check) == ["s_cbranch_scc1 over"]
    (met,) = (one.tolist() for lack, one in check.meeting(launches, check.lacks({})).items() if lack[0] == WAY)
    assert met == [False, True, False]


def test_limits_of_strides_that_rules_keep_even_and_above_rows() -> None:
    """The largest x_stride that norm's contract names is odd, and the least is below its rows: neither is a launch."""
    contract = plain("norm", "gfx950").kernel.contract
    largest = contract.parameter("x_stride").maximum
    assert any(largest - launch["x_stride"] < 8 for launch in limit_launches(contract, contract.resolve_build({}), ("rows", "x_stride")))


def test_limits_are_as_far_as_the_contract_goes() -> None:
    contract = plain("gemm-bf16", "gfx950").kernel.contract
    build = contract.resolve_build({})
    found = list(limit_launches(contract, build, ("m", "lda")))
    largest = contract.parameter("lda").maximum
    assert any(launch["lda"] + contract.parameter("lda").multiple_of > largest for launch in found)
    assert all(contract.resolve_run(launch) for launch in found)


@pytest.mark.slow
def test_the_greatest_grid_has_sizes_that_a_shorter_table_allows() -> None:
    """rope's table of angles has as many rows as there are tokens, unless a launch says fewer: only then may there be 2^24 tokens."""
    contract = plain("rope", "gfx950").kernel.contract
    build = contract.resolve_build({})
    tokens = contract.parameter("s").maximum
    assert contract.grid_of(contract.resolve_run({**build, "s": tokens, "h": 1, "angles": 1}))[0] <= greatest_grid(contract, build)[0]


@pytest.mark.parametrize(("counts", "period"), [
    ([[1, 0], [1, 1], [1, 2], [1, 3], [1, 4], [1, 5]], 1),
    ([[1, 0, 0], [1, 1, 0], [1, 1, 1], [1, 2, 1], [1, 2, 2], [1, 3, 2], [1, 3, 3]], 2),
    ([[1]] * 9, None), ([[2**n] for n in range(12)], None), ([[1, n] for n in range(5)], None)])
def test_loops_are_steady_where_rounds_repeat(counts: list[list[int]], period: int | None) -> None:
    assert steady(counts) == period
