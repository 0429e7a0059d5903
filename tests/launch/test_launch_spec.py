"""`asmgen launch`: the specification file, what it refuses, and a launch from files to files; and launches with Python arguments."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asmgen.author.emit.builder import Builder
from asmgen.codeobject.arguments import ArgumentError, Typed
from asmgen.codeobject.directives import KernelResources, header, trailer
from asmgen.codeobject.load import CodeObject, CodeObjectError
from asmgen.codeobject.metadata import arguments
from asmgen.isa.registers import s, v
from asmgen.launch.device import DeviceError
from asmgen.launch.emulated import EmulatedDevice
from asmgen.launch.spec import AliasArgument, BufferArgument, SpecError, ValueArgument, parse_spec, read_spec
from asmgen.launch.specrun import run_launch_spec
from asmgen.program.text import program_text
from asmgen.toolchain import assemble
from asmgen.tools.launch_command import LaunchReport

PAIRS = [("a", "pointer"), ("o", "pointer"), ("scale", "f32"), ("count", "i32"), ("half", "pointer"), ("", "hidden_block_count_x"),
         ("", "hidden_group_size_x")]


def body(k: Builder) -> None:
    """o[i] = a[i] * scale for i < count; half[workgroup] = workgroups * 1000 + work-items of a workgroup."""
    k.s_load_dwordx4(s[4:7], s[0:1], 0)
    k.s_load_dwordx2(s[8:9], s[0:1], 16)
    k.s_load_dwordx2(s[10:11], s[0:1], 24)
    k.s_load_dword(s[12], s[0:1], 32)
    k.s_load_dword(s[13], s[0:1], 36)
    k.s_waitcnt(lgkmcnt=0)
    k.s_and_b32(s[13], s[13], 0xFFFF)
    k.s_mul_i32(s[14], s[2], s[13])
    k.v_add_u32(v[1], s[14], v[0])
    k.v_lshlrev_b32(v[2], 2, v[1])
    k.v_mov_b32(v[6], 0)
    k.s_mul_i32(s[15], s[12], 1000)
    k.s_add_u32(s[15], s[15], s[13])
    k.v_mov_b32(v[5], s[15])
    k.s_lshl_b32(s[16], s[2], 2)
    k.v_mov_b32(v[6], s[16])
    k.global_store_dword(v[6], v[5], s[10:11])
    k.v_cmp_gt_u32(s[18:19], s[9], v[1])
    k.s_and_saveexec_b64(s[20:21], s[18:19])
    k.global_load_dword(v[3], v[2], s[4:5])
    k.s_waitcnt(vmcnt=0)
    k.v_mul_f32(v[3], s[8], v[3])
    k.global_store_dword(v[2], v[3], s[6:7])
    k.s_endpgm()


def code_object(arch: str = "gfx950", name: str = "scaled", pairs: list[tuple[str, str]] | None = None,
                emit: Callable[[Builder], object] = body) -> bytes:
    builder = Builder(name, arch)
    emit(builder)
    resources = KernelResources(name=name, arch=arch, vgprs=8, agprs=0, sgprs=32, lds_bytes=0, arguments=arguments(pairs or PAIRS),
                                max_flat_workgroup_size=64, workgroup_ids=(True, False, False))
    return assemble(header(resources) + program_text(builder.program()) + trailer(resources), arch)


@pytest.fixture(scope="module")
def image(objdump: tuple[str, ...]) -> bytes:
    return code_object()


A = np.arange(1, 101, dtype=np.float32).reshape(4, 25)


@pytest.fixture
def folder(tmp_path: Path, image: bytes) -> Path:
    (tmp_path / "k.co").write_bytes(image)
    np.save(tmp_path / "a.npy", A)
    (tmp_path / "a.bin").write_bytes(A.tobytes())
    return tmp_path


def specification(**changes: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "code_object": "k.co", "grid": [2, 1, 1], "block": [64, 1, 1],
        "args": [{"buffer": "a.npy"}, {"zeros": 400, "save": "o.bin"}, {"scalar": "f32", "value": 2.5}, {"scalar": "i32", "value": 90},
                 {"zeros": 16, "save": "h.npy"}]}
    return spec | changes


def launch(folder: Path, device: str = "emulator", **changes: Any) -> LaunchReport:
    path = folder / "spec.json"
    path.write_text(json.dumps(specification(**changes)))
    return LaunchReport.of(run_launch_spec(path, device))


def expected(scale: float = 2.5, count: int = 90) -> np.ndarray[Any, Any]:
    return np.where(np.arange(100) < count, A.reshape(-1) * np.float32(scale), 0).astype(np.float32)


def test_from_files_to_files(folder: Path) -> None:
    report = launch(folder)
    assert np.fromfile(folder / "o.bin", np.float32).tolist() == expected().tolist()
    saved = np.load(folder / "h.npy")
    assert saved.dtype == np.uint8 and saved.view(np.uint32).tolist() == [2064, 2064, 0, 0]  # the hidden arguments were filled in
    assert (report.kernel, report.arch, report.device) == ("scaled", "gfx950", "emulator") and report.passed
    document = report.as_json()
    assert {"kernel", "arch", "device", "wave_instructions", "seconds", "findings"} <= set(document)
    assert document["findings"] == [] and document["wave_instructions"] == 2 * 24 and json.dumps(document)


@pytest.mark.parametrize("order", ["lockstep", "serial", "random:7"])
@pytest.mark.parametrize("checks", [False, True])
def test_orders_and_checks(folder: Path, order: str, checks: bool) -> None:
    launch(folder, order=order, checks=checks)
    assert np.fromfile(folder / "o.bin", np.float32).tolist() == expected().tolist()


def test_save_keeps_shape_and_type(folder: Path) -> None:
    args = specification()["args"]
    args[0] = {"buffer": "a.npy", "save": "again.npy"}
    args[1] = {"same_as": 0}  # in place
    launch(folder, args=args)
    after = np.load(folder / "again.npy")
    assert after.shape == (4, 25) and after.dtype == np.float32
    assert after.reshape(-1).tolist() == np.where(np.arange(100) < 90, A.reshape(-1) * 2.5, A.reshape(-1)).tolist()


def test_raw_buffers_and_pointers_into_them(folder: Path) -> None:
    args = specification()["args"]
    args[0] = {"buffer": "a.bin", "save": "a_out.bin"}
    args[3] = {"bytes": "0a000000"}
    args[4] = {"same_as": 0, "at": 200}
    launch(folder, args=args)
    assert np.fromfile(folder / "o.bin", np.float32).tolist() == expected(count=10).tolist()
    words = np.fromfile(folder / "a_out.bin", np.uint32)
    assert words[50:52].tolist() == [2064, 2064] and words[:50].tobytes() == A.tobytes()[:200]


def test_offsets_place_arguments_in_any_order(folder: Path) -> None:
    args = [{"offset": 20, "scalar": "i32", "value": 90}, {"offset": 24, "zeros": 8}, {"offset": 0, "buffer": "a.npy"},
            {"zeros": 400, "save": "o.bin"},
            {"scalar": "f32", "value": -1}]
    launch(folder, args=args)
    assert np.fromfile(folder / "o.bin", np.float32).tolist() == expected(-1).tolist()


def test_findings_are_reported_and_fail_the_launch(folder: Path) -> None:
    args = specification()["args"]
    args[1] = {"zeros": 300, "save": "o.bin"}  # too small for 90 elements
    report = launch(folder, args=args)
    assert not report.passed and [finding["check"] for finding in report.as_json()["findings"]] == ["access-outside-registry"]
    assert np.fromfile(folder / "o.bin", np.float32).tolist() == expected()[:75].tolist()
    assert "access-outside-registry" in report.text()


def refused(folder: Path, **changes: Any) -> str:
    with pytest.raises(SpecError) as error:
        launch(folder, **changes)
    sentence = str(error.value)
    assert "spec.json" in sentence and "\n" not in sentence
    return sentence


@pytest.mark.parametrize("changes,words", [
    ({"grid": [1, 1]}, "'grid' has three numbers"), ({"grid": [0, 1, 1]}, "from 1 to"), ({"block": [64, 1, True]}, "True"),
    ({"grid": "2"}, "'grid'"), ({"code_object": 5}, "file's name"), ({"kernel": 5}, "'kernel' is a text"), ({"arch": "gfx90a"},
                                                                                                            "gfx942 and gfx950"),
    ({"order": "random"}, "random:SEED"), ({"order": "parallel"}, "lockstep"), ({"checks": "yes"}, "true or false"),
    ({"checks": ["lds-races"]}, "lds-race,"), ({"args": {}},
                                                                                                                      "'args' is a list"),
    ({"dynamic_lds": -1}, "'dynamic_lds'"), ({"blocks": 1}, "has no 'blocks'"), ({"args": [5]}, "argument 0 is a JSON object"),
    ({"args": [{}]}, "exactly one of buffer"), ({"args": [{"zeros": 4, "buffer": "a.npy"}]}, "exactly one of"),
    ({"args": [{"scalar": "f31", "value": 1}]}, "unknown type 'f31'"), ({"args": [{"scalar": "pointer", "value": 1}]}, "'pointer'"),
    ({"args": [{"scalar": "f32"}]}, "needs a number"), ({"args": [{"scalar": "u8", "value": 256}]}, "0 to 255"),
    ({"args": [{"scalar": "f32", "value": "1"}]}, "needs a number"), ({"args": [{"scalar": "i32", "value": True}]}, "needs a number"),
    ({"args": [{"bytes": "0"}]}, "hexadecimal"), ({"args": [{"bytes": "zz"}]}, "hexadecimal"), ({"args": [{"zeros": -1}]}, "'zeros'"),
    ({"args": [{"zeros": 4, "at": 1}]}, "has no 'at'"), ({"args": [{"zeros": 4, "offset": -4}]}, "'offset'"),
    ({"args": [{"same_as": 0}]}, "no buffer of its own"), ({"args": [{"zeros": 4}, {"same_as": 2}]}, "arguments that have one: 0"),
    ({"args": [{"scalar": "i8", "value": 1}, {"same_as": 0}]}, "no buffer of its own"),
    ({"args": [{"zeros": 4, "save": "x"}, {"zeros": 4, "save": "x"}]}, "saved to 'x'"),
    ({"args": [{"zeros": 4}, {"same_as": 0, "at": 5}]}, "5 bytes into a buffer of 4"),
    ({"args": [{"zeros": 4, "offset": 0}, {"zeros": 4, "offset": 4}]}, "overlap"),
    ({"args": [{"buffer": "none.npy"}]}, "cannot be read"), ({"args": [{"buffer": "k.co.npy"}]}, "cannot be read"),
    ({"args": [{"zeros": 4, "save": "no/where.bin"}]}, "cannot be written"),
    ({"product": {"m": 4, "n": 4}}, "'product' lacks k"), ({"product": 5}, "'product' is an object such as"),
    ({"product": {"m": 4, "n": 4, "k": 0}}, "'k' of 'product' is a whole number"), ({"attention": {"m": 4}}, "'attention' has no 'm'"),
    ({"product": {"m": 4, "n": 4, "k": 4, "tile": "256x256"}}, "ROWSxCOLUMNSxDEPTH"),
    ({"attention": {"b": 1, "hq": 1, "hkv": 1, "sq": 1, "sk": 1, "d": 1, "causal": 1}}, "'causal' is true or false"),
    ({"attention": {"b": 1, "hq": 1, "hkv": 1, "sq": 1, "sk": 1, "d": 1, "backward": 1}}, "'backward' is true or false"),
    ({"attention": {"b": 1, "hq": 8, "hkv": 3, "sq": 1, "sk": 1, "d": 1}}, "a multiple of its 'hkv', 3, not 8"),
    ({"product": {"m": 4, "n": 4, "k": 4}, "attention": {}}, "not both"),
])
def test_refusals_name_the_file_and_the_fault(folder: Path, changes: dict[str, Any], words: str) -> None:
    assert words in refused(folder, **changes)


TWICE: list[dict[str, Any]] = [
    {"grid": [2, 1, 1], "block": [64, 1, 1], "args": [
        {"buffer": "a.npy", "name": "a"}, {"undefined": 400, "name": "between"}, {"scalar": "f32", "value": 2.0},
        {"scalar": "i32", "value": 100}, {"zeros": 16, "name": "groups"}]},
    {"grid": [2, 1, 1], "block": [64, 1, 1], "args": [
        {"same_as": "between"}, {"zeros": 404, "save": "o.bin"}, {"scalar": "f32", "value": 3.0}, {"scalar": "i32", "value": 90},
        {"same_as": "groups", "at": 8}]},
]


def launch_list(folder: Path, launches: Any = TWICE, **more: Any) -> LaunchReport:
    path = folder / "spec.json"
    path.write_text(json.dumps({"code_object": "k.co", "launches": launches} | more))
    return LaunchReport.of(run_launch_spec(path, "emulator"))


@pytest.mark.parametrize("order", ["lockstep", "serial", "random:7"])
def test_several_launches_share_buffers_by_name(folder: Path, order: str) -> None:
    report = launch_list(folder, order=order)
    np.testing.assert_array_equal(np.fromfile(folder / "o.bin", np.float32)[:100], expected(6.0))
    assert report.passed and [one["kernel"] for one in report.as_json()["launches"]] == ["scaled", "scaled"]
    assert report.wave_instructions == 2 * 2 * 24 and report.kernel == "scaled"


def test_what_the_first_launch_did_not_write_is_found(folder: Path) -> None:
    """The second one stores 90 elements of which the first has written 64."""
    report = launch_list(folder, [{**TWICE[0], "grid": [1, 1, 1]}, TWICE[1]])
    assert not report.passed and "stores what nobody wrote: byte 256" in report.text()
    first, second = with_argument(0, 1, {"zeros": 400, "name": "between"})
    assert launch_list(folder, [{**first, "grid": [1, 1, 1]}, second]).passed


def with_argument(launch: int, number: int, argument: dict[str, Any]) -> list[dict[str, Any]]:
    """The two launches with another argument."""
    return [{**one, "args": [argument if (launch, number) == (place, position) else old for position, old in enumerate(one["args"])]}
            for place, one in enumerate(TWICE)]


@pytest.mark.parametrize(("launches", "more", "words"), [
    ([], {}, "'launches' is a list of one JSON object or more"), ([5], {}, "'launches' is a list of one JSON object or more"),
    (TWICE, {"grid": [1, 1, 1]}, "it has 'launches', so each of them has its own 'grid'"),
    ([{"grid": [1, 1, 1]}], {}, "'block' of launch 0 is missing"),
    ([{**TWICE[0], "order": "serial"}], {}, "launch 0 has no 'order'"),
    (with_argument(1, 0, {"same_as": "beneath"}), {},
     "argument 0 of launch 1 is 'same_as' 'beneath', and no argument has that name; names: 'a', 'between', 'groups'"),
    (with_argument(1, 0, {"same_as": 0}), {}, "argument 0 of launch 1 is 'same_as' 0, which has no buffer of its own"),
    (with_argument(1, 0, {"same_as": "between", "at": 401}), {}, "argument 0 of launch 1 points 401 bytes into a buffer of 400"),
    (with_argument(1, 0, {"zeros": 8, "name": "a"}), {}, "two arguments have the name 'a'"),
    (with_argument(0, 0, {"zeros": 8, "save": "o.bin", "name": "a"}), {}, "two arguments are saved to 'o.bin'"),
    (with_argument(0, 1, {"undefined": 400, "save": "x.bin"}), {}, "argument 1 of launch 0, a 'undefined' argument, has no 'save'"),
    (with_argument(1, 1, {"zeros": 8, "save": "a.npy"}), {},
     "argument 1 of launch 1 would be saved over the file that argument 0 of launch 0 is read from"),
])
def test_refusals_name_the_launch(folder: Path, launches: Any, more: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError) as error:
        launch_list(folder, launches, **more)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_each_launch_may_solve_a_problem_or_all_together_one(tmp_path: Path) -> None:
    product = {"product": {"m": 10, "n": 10, "k": 10}}
    whole = parse_spec({"code_object": "k.co", "launches": TWICE} | product, tmp_path)
    assert whole.problem is not None and whole.problem.flops == 2000 and [one.problem for one in whole.launches] == [None, None]
    each = parse_spec({"code_object": "k.co", "launches": [TWICE[0] | product, TWICE[1]]}, tmp_path)
    assert each.problem is None and [one.problem is not None for one in each.launches] == [True, False]


def test_refusals_of_files(folder: Path, tmp_path: Path) -> None:
    for content, words in ((b"{", "is not JSON"), (b"\xff\xfe", "not UTF-8"), (b"[]", "is a JSON object"),
                           (b"{}", "'code_object' is missing")):
        (tmp_path / "bad.json").write_bytes(content)
        with pytest.raises(SpecError, match=words):
            read_spec(tmp_path / "bad.json")
    with pytest.raises(SpecError, match="cannot be read"):
        read_spec(tmp_path / "none.json")
    (folder / "a.npy").write_bytes(b"no array")
    assert "is no .npy file" in refused(folder)


def test_what_the_code_object_decides(folder: Path) -> None:
    with pytest.raises(CodeObjectError, match="no kernel 'other'"):
        launch(folder, kernel="other")
    with pytest.raises(CodeObjectError, match="gfx942"):
        launch(folder, arch="gfx942")
    with pytest.raises(DeviceError, match="work-items"):
        launch(folder, block=[65, 1, 1])
    with pytest.raises(DeviceError, match="hip"):
        launch(folder, device="hip")
    assert launch(folder, kernel="scaled", arch="gfx950", device="auto").device == "emulator"


def test_parsed_form(tmp_path: Path) -> None:
    spec = parse_spec(specification(args=[{"offset": 8, "buffer": "a.npy", "save": "b.npy"}, {"same_as": 0, "at": 4},
                                          {"scalar": "bf16", "value": 1},
                                          {"bytes": "0102"}], order="random:3", checks=False, dynamic_lds=64), tmp_path)
    (only,) = spec.launches
    assert only.args == (BufferArgument(8, tmp_path / "a.npy", 0, tmp_path / "b.npy"), AliasArgument(None, 0, 4),
                         ValueArgument(None, b"\x80\x3f", 2), ValueArgument(None, b"\x01\x02", 1))
    assert parse_spec({"code_object": "k.co", "grid": [1, 1, 1], "block": [64, 1, 1], "checks": ["lds-race", "wait-state"]},
                      tmp_path).checks == ("lds-race", "wait-state")
    assert (spec.order, spec.checks, only.dynamic_lds, only.kernel, only.grid) == ("random:3", False, 64, None, (2, 1, 1))


def test_operations_of_the_problem_that_a_launch_solves(tmp_path: Path) -> None:
    """Counted pair by pair: query i of sq sees the keys up to i + sk - sq where a mask is causal."""
    plain = {"code_object": "k.co", "grid": [1, 1, 1], "block": [64, 1, 1]}
    assert parse_spec(plain, tmp_path).problem is None
    product = parse_spec({**plain, "product": {"m": 100, "n": 30, "k": 7, "b": 2, "tile": "64x32x8", "split": 3}}, tmp_path).problem
    assert product is not None and product.flops == 2 * 2 * 100 * 30 * 7 and product.tile == (64, 32, 8) and product.split == 3
    for sq, sk in ((5, 5), (3, 9), (9, 3), (1, 4)):
        for causal in (False, True):
            sizes = {"b": 2, "hq": 4, "hkv": 2, "sq": sq, "sk": sk, "d": 16}
            found = parse_spec({**plain, "attention": {**sizes, "causal": causal}}, tmp_path).problem
            pairs = sum(not causal or key <= query + sk - sq for query in range(sq) for key in range(sk))
            assert found is not None and found.flops == 4 * 2 * 4 * 16 * pairs
            found = parse_spec({**plain, "attention": {**sizes, "causal": causal, "backward": True}}, tmp_path).problem
            assert found is not None and found.flops == 10 * 2 * 4 * 16 * pairs and found.causal == causal


def test_python_arguments_by_position_and_by_name(image: bytes) -> None:
    kernel = CodeObject.load(image).kernel("scaled")
    for given in ([A.copy(), np.zeros(100, np.float32), 0.5, 70, np.zeros(2, np.uint32)],
                  [A.copy(), np.zeros(100, np.float32), np.float32(0.5), np.int32(70), np.zeros(2, np.uint32)],
                  [A.copy(), np.zeros(100, np.float32), Typed("f32", 0.5), b"\x46\0\0\0", np.zeros(2, np.uint32)]):
        named = dict(zip(("a", "o", "scale", "count", "half"), given, strict=True))
        for values in (given, named):
            device = EmulatedDevice("gfx950")
            result = device.launch(kernel, (2, 1, 1), (64, 1, 1), values)
            assert given[1].tolist() == expected(0.5, 70).tolist() and given[4].tolist() == [2064, 2064]
            assert result.findings == () and device.launches == [result]
            assert [interval.name for interval in device.memory.intervals if "code object" not in interval.name] == []
            given[1][:] = 0


def test_python_arrays_are_shared_and_read_only_ones_stay(image: bytes) -> None:
    kernel = CodeObject.load(image).kernel()
    both, fixed = A.copy(), np.zeros(2, np.uint32)
    fixed.flags.writeable = False
    EmulatedDevice("gfx950").launch(kernel, (2, 1, 1), (64, 1, 1), [both, both, 3.0, 100, fixed])
    assert both.tolist() == (A * 3).tolist() and not fixed.any()


def test_python_arguments_that_do_not_fit(image: bytes) -> None:
    kernel = CodeObject.load(image).kernel()
    device = EmulatedDevice("gfx950")
    for values, words in (([A], "takes 5 arguments"), ([A, A, 1.0, 1 << 33, A], "holds"), ({"a": A}, "needs a value"),
                          ([A, A, np.float64(1), 1, A], "4 bytes"), ([A, A, "x", 1, A], "whole number")):
        with pytest.raises(ArgumentError, match=words):
            device.launch(kernel, (1, 1, 1), (64, 1, 1), values)
    assert [interval.name for interval in device.memory.intervals if "code object" not in interval.name] == []


def test_code_and_its_data_lie_in_memory(objdump: tuple[str, ...]) -> None:
    """s_getpc points at the code, which can be read; code objects of the other architecture are refused."""

    def emit(k: Builder) -> None:
        k.s_load_dwordx2(s[4:5], s[0:1], 0)
        k.s_getpc_b64(s[6:7])
        k.s_load_dword(s[8], s[6:7], -4)
        k.s_waitcnt(lgkmcnt=0)
        k.s_store_dword(s[8], s[4:5], 0)
        k.s_endpgm()

    image = code_object("gfx942", "self", [("o", "pointer")], emit)
    out = np.zeros(1, np.uint32)
    result = EmulatedDevice("gfx942").launch(CodeObject.load(image).kernel(), (1, 1, 1), (64, 1, 1), [out])
    assert out[0] == 0xBE861C00 and result.findings == ()  # the encoding of s_getpc_b64 s[6:7]
    with pytest.raises(DeviceError, match="EmulatedDevice\\('gfx942'\\)"):
        EmulatedDevice("gfx950").launch(CodeObject.load(image).kernel(), (1, 1, 1), (64, 1, 1), [out])
