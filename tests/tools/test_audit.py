"""`asmgen audit`: what counts as a code object, what is said of it, reports and baseline, and that nothing stops the others."""

from __future__ import annotations

import io
import json
import os
import signal
import tarfile
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from asmgen.checks.finding.finding import LintFinding
from asmgen.checks.lint.linting import Linter
from asmgen.kernels.registry import family
from asmgen.program.program import Program
from asmgen.toolchain import assemble
from asmgen.tools.audit.auditfiles import FoundObject, FoundObjects
from asmgen.tools.audit.objectaudit import audit_object
from asmgen.tools.running.build import build_kernel
from tests.codeobject.test_load import GPU, HOST, make_bundle
from tests.tools.test_cli import call

pytestmark = pytest.mark.needs_objdump
FAULTY = """\
.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
f:
.type f,@function
ds_read_b32 v1, v0
v_mov_b32 v2, v1
s_endpgm
.size f, .-f
"""
SOUND = FAULTY.replace("v_mov_b32 v2", "s_waitcnt lgkmcnt(0)\nv_mov_b32 v2")
SECOND = FAULTY.replace("f:", "g:").replace("f,", "g,").replace("-f", "-g").partition("\n")[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good kernel of the library twice, a function with a missing wait, a cut-off object, a text."""
    found = tmp_path_factory.mktemp("kernels")
    (found / "deep").mkdir()
    good = build_kernel(family("gemm-bf16"), "gfx950", {}).code_object
    (found / "good.co").write_bytes(good)
    (found / "deep" / "again.co").write_bytes(good)
    (found / "deep" / "faulty.co").write_bytes(assemble(FAULTY, "gfx942"))
    (found / "cut.co").write_bytes(good[:200])
    (found / "notes.txt").write_text("no kernel")
    return found


def names(objects: FoundObjects) -> list[str]:
    """Of the files, without folders."""
    return [f"{found.file.rpartition('/')[2]}#{found.number}" for found in objects]


def judged(data: bytes, name: str = "k.co") -> tuple[Any, ...]:
    """(kernel, rule, severity) of what is found in a code object."""
    audited = audit_object(FoundObject(name, 0, "gfx942", data))
    return tuple((kernel.name, one.rule, one.severity) for kernel in audited.kernels for one in kernel.findings if one.severity != "note")


def test_each_content_counts_once(folder: Path) -> None:
    objects = FoundObjects([folder])
    assert names(objects) == ["cut.co#0", "again.co#0", "faulty.co#0"] and (objects.files, objects.read) == (5, 5)


def test_where_code_objects_are_found(folder: Path, tmp_path: Path) -> None:
    """In bundles, shared and static libraries, wheels and tar archives; those for other GPUs are counted."""
    faulty, good = (folder / "deep" / "faulty.co").read_bytes(), (folder / "good.co").read_bytes()
    bundle = make_bundle({HOST: b"", GPU + "gfx942": faulty, GPU + "gfx950": good, GPU + "gfx1100": b"other"})
    member = b"a.o/".ljust(16) + b"0".ljust(32) + str(len(bundle)).encode().ljust(10) + b"`\n" + bundle + b"\n" * (len(bundle) % 2)
    library = b"!<arch>\n" + member
    with zipfile.ZipFile(tmp_path / "p.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr("p/lib.a", library)
        wheel.writestr("p/text", "PK")
    objects = FoundObjects([tmp_path])
    assert names(objects) == ["lib.a#1", "lib.a#2"] and objects.others == {"gfx1100": 1}
    with tarfile.open(tmp_path / "q.tar.gz", "w:gz") as tar:
        entry = tarfile.TarInfo("deep/k.hsaco")
        entry.size = len(faulty)
        tar.addfile(entry, io.BytesIO(faulty))
    assert [found.label.rpartition("/")[2] for found in FoundObjects([tmp_path / "q.tar.gz"])] == ["k.hsaco"]
    (tmp_path / "lib.a").write_bytes(b"!<arch>\n" + member.replace(str(len(bundle)).encode(), b"x" * len(str(len(bundle)))))
    (tmp_path / "bad.whl").write_bytes((tmp_path / "p.whl").read_bytes()[:100])
    failures = {found.file.rpartition("/")[2]: found.failure for found in FoundObjects([tmp_path]) if found.failure}
    assert failures == {"bad.whl": "cannot be read: File is not a zip file",
                        "lib.a": "a static library whose member at 0x8 has no size"}


def test_a_file_named_as_a_code_object_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "pointer.co").write_text("version https://git-lfs")
    (tmp_path / "junk.hsaco").write_bytes(b"\x7fELF junk")
    (tmp_path / "plain.txt").write_text("no kernel")
    (tmp_path / "a.co").write_bytes(assemble(SOUND, "gfx942"))
    (tmp_path / "again.co").write_bytes(assemble(SOUND, "gfx942"))
    with zipfile.ZipFile(tmp_path / "w.whl", "w") as wheel:
        wheel.writestr("k.hsaco", "")
        wheel.writestr("k.py", "")
    failed = {found.file.rpartition("/")[2] for found in FoundObjects([tmp_path]) if found.failure}
    assert failed == {"pointer.co", "junk.hsaco", "w.whl!k.hsaco"}


def test_what_is_said_of_each(folder: Path) -> None:
    assert judged((folder / "good.co").read_bytes()) == ()
    assert judged((folder / "deep" / "faulty.co").read_bytes()) == (("f", "W001", "error"),)
    assert judged(assemble(SOUND, "gfx942")) == ()
    assert judged((folder / "cut.co").read_bytes()) == (("", "A001", "error"),)
    assert judged(assemble(FAULTY + SECOND, "gfx942")) == (("f", "W001", "error"), ("g", "W001", "error"))


def test_a_kernel_that_cannot_be_read_leaves_the_next() -> None:
    data = assemble((FAULTY + SECOND).replace("v_mov_b32 v2, v1", ".long 0xffffffff", 1), "gfx942")
    assert judged(data) == (("f", "A001", "error"), ("g", "W001", "error"))


def test_an_object_that_takes_too_long(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Linter, "lint", lambda linter, program: time.sleep(30))
    (kernel,) = audit_object(FoundObject("k.co", 0, "gfx942", (folder / "deep" / "faulty.co").read_bytes()), 0.2).kernels
    assert kernel.findings[0].rule == "A003" and "longer than 0.2 s; 0 of" in kernel.findings[0].message


@pytest.mark.slow
def test_status_text_and_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = call(capsys, "audit", str(folder))
    assert status == 1
    lines = out.splitlines()
    assert lines[0] == "error A001 code that cannot be read" and "cut.co" in lines[1]
    assert lines[2] == "error W001 register touched before its load has arrived: ds_read_b32 -> v_mov_b32"
    assert lines[3].startswith(f"    1 in 1 kernel of 1 file; it: {folder / 'deep' / 'faulty.co'}:0x") and "(f)" in lines[3]
    assert lines[-1].startswith("2 errors, 0 warnings, ") and lines[-1].endswith(" of 2 kernels in 3 code objects")
    document = json.loads(call(capsys, "audit", str(folder), "--json")[1])
    assert [(row["file"].rpartition("/")[2], row["kernel"], row["arch"], len(row["findings"])) for row in document["objects"]] == [
        ("cut.co", "", "", 1), ("again.co", "gemm_bf16_gfx950_128x128x64_interleave", "gfx950", 0), ("faulty.co", "f", "gfx942", 1)]
    assert {(row["rule"], row["count"], row["files"]) for row in document["causes"]} == {("A001", 1, 1), ("W001", 1, 1)}
    assert call(capsys, "audit", str(folder / "good.co"))[0] == 0
    status, _, said = call(capsys, "audit", str(folder / "notes.txt"))
    assert status == 2 and "notes.txt" in said


@pytest.mark.slow
def test_a_baseline_lets_known_findings_pass(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In another folder, at other addresses and in other registers too; one more of the same kind is new."""
    known, again = tmp_path / "known.json", tmp_path / "again.json"
    assert call(capsys, "audit", str(folder / "deep"), "--write-baseline", str(known))[0] == 1
    moved = tmp_path / "moved.co"
    moved.write_bytes(assemble(FAULTY.replace("v1", "v7").replace("ds_read", "s_nop 0\nds_read"), "gfx942"))
    status, out, _ = call(capsys, "audit", str(moved), "--baseline", str(known), "--write-baseline", str(again))
    assert status == 0 and "0 new errors, 0 new warnings, 0 gone" in out and known.read_text() == again.read_text()
    moved.write_bytes(assemble(FAULTY.replace("s_endpgm", "ds_read_b32 v1, v0\nv_mov_b32 v2, v1\ns_endpgm"), "gfx942"))
    status, out, _ = call(capsys, "audit", str(moved), "--baseline", str(known))
    assert status == 1 and "2 in 1 kernel of 1 file, 1 new; the first:" in out and "1 new error, 0 new warnings, 0 gone" in out
    moved.write_bytes(assemble(SOUND, "gfx942"))
    status, out, _ = call(capsys, "audit", str(moved), "--baseline", str(known))
    assert status == 0 and out.endswith("0 new errors, 0 new warnings, 1 gone\n")
    for text in ("", "[]", '{"version": 2}', '{"version": 1, "findings": [{}]}', '{"version": 1, "findings": 3}'):
        known.write_text(text)
        status, _, said = call(capsys, "audit", str(moved), "--baseline", str(known))
        assert status == 2 and f"{known} is no baseline of asmgen audit" in said


def test_sarif(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The fields that SARIF 2.1.0 requires, and places below the working folder relative to it."""
    monkeypatch.chdir(folder)
    log, page = tmp_path / "log.sarif", tmp_path / "page"
    call(capsys, "audit", ".", "--sarif", str(log), "--markdown", str(page))
    document = json.loads(log.read_text())
    (run,) = document["runs"]
    assert document["version"] == "2.1.0" and run["tool"]["driver"]["name"] == "asmgen"
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["A001", "W001"]
    cut, faulty = run["results"]
    assert (cut["ruleIndex"], cut["level"]) == (0, "error") and "address" not in cut["locations"][0]["physicalLocation"]
    (location,) = faulty["locations"]
    assert faulty["ruleId"] == "W001" and location["physicalLocation"]["artifactLocation"]["uri"] == "deep/faulty.co"
    assert location["physicalLocation"]["address"]["kind"] == "instruction" and location["logicalLocations"][0]["name"] == "f"
    assert "v_mov_b32 reads v1" in faulty["message"]["text"] and "baselineState" not in faulty
    assert "| error | W001 | `ds_read_b32 -> v_mov_b32` | 1 | 1 | 1 | deep/faulty.co:0x" in page.read_text()


@pytest.mark.parametrize("deadly", [False, True])
def test_a_fault_of_ours_leaves_the_others(deadly: bool, folder: Path, monkeypatch: pytest.MonkeyPatch,
                                           capsys: pytest.CaptureFixture[str]) -> None:
    """Also where it kills the process: the objects that waited for their turn are still judged."""
    lint = Linter.lint

    def failing(linter: Linter, program: Program) -> list[LintFinding]:
        if program.name != "f":
            return lint(linter, program)
        if deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        raise IndexError("too many indices")

    monkeypatch.setattr(Linter, "lint", failing)
    status, out, _ = call(capsys, "audit", str(folder), str(folder / "deep"), "-j", "2")
    sentence = "the process that read it was killed" if deadly else "internal error, which no input should cause: IndexError at test_audit"
    assert status == 1 and sentence in out and "3 code objects" in out and "gemm_bf16" not in out
    assert f"error {'A003' if deadly else 'A002'}" in out and "cut.co" in out


def test_what_is_no_plain_file(tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "it is a pipe" in call(capsys, "audit", str(tmp_path / "pipe"))[2]
    opened = Path.open

    def failing(path: Path, *rest: Any, **more: Any) -> Any:
        if path.name == "faulty.co":
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *rest, **more)

    monkeypatch.setattr(Path, "open", failing)
    (found,) = FoundObjects([folder / "deep" / "faulty.co"])
    assert found.failure == "cannot be read: Permission denied"


RACY = """\
.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
.text
.p2align 8
.globl racy
.type racy,@function
racy:
s_load_dword s4, s[0:1], 0x8
v_lshlrev_b32 v1, 2, v0
s_waitcnt lgkmcnt(0)
v_xor_b32 v2, s4, v1
v_add_u32 v2, v2, v2
v_and_b32 v2, 0x1fc, v2
ds_write_b32 v1, v0
ds_read_b32 v3, v2
s_waitcnt lgkmcnt(0)
s_endpgm
.size racy, .-racy
.rodata
.p2align 6
.amdhsa_kernel racy
.amdhsa_next_free_vgpr 8
.amdhsa_next_free_sgpr 8
.amdhsa_accum_offset 8
.amdhsa_group_segment_fixed_size 512
.amdhsa_user_sgpr_kernarg_segment_ptr 1
.amdhsa_kernarg_size 24
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.kernels:
  - .name: racy
    .symbol: racy.kd
    .kernarg_segment_size: 24
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 512
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 8
    .vgpr_count: 8
    .max_flat_workgroup_size: 1024
    .args:
      - {.offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global}
      - {.offset: 8, .size: 4, .value_kind: by_value}
      - {.offset: 12, .size: 12, .value_kind: by_value}
amdhsa.version: [1, 2]
...
.end_amdgpu_metadata
"""


@pytest.mark.slow
def test_specifications_from_metadata_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The race is at an address that a scalar argument makes, which lint cannot know: a run shows it. Two warps are Triton's."""
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "racy.hsaco").write_bytes(assemble(RACY, "gfx942"))
    (cache / "racy.json").write_text(json.dumps({"num_warps": 2, "shared": 1536}))
    (cache / "cut.co").write_bytes((cache / "racy.hsaco").read_bytes()[:300])
    status, _, told = call(capsys, "audit", str(cache / "racy.hsaco"), "--specs", str(tmp_path / "specs"))
    assert status == 0 and "1 launch specifications" in told and "guesses" in told
    (spec,) = (tmp_path / "specs").glob("*.json")
    written = json.loads(spec.read_text())
    assert written == {"code_object": written["code_object"], "kernel": "racy", "grid": [2, 1, 1], "block": [128, 1, 1],
                       "dynamic_lds": 1024, "args": [{"offset": 0, "zeros": 1 << 20}, {"offset": 8, "scalar": "i32", "value": 64},
                                                     {"offset": 12, "bytes": "00" * 12}]}
    status, out, _ = call(capsys, "launch", str(spec), "--device", "emulator")
    assert status == 1 and "ds_read_b32 v3, v2" in out
    (cache / "racy.json").write_text("[" * 100_000)
    assert call(capsys, "audit", str(cache / "racy.hsaco"), "--specs", str(tmp_path / "specs"))[0] == 0
    (cache / "racy.json").write_text(json.dumps({"num_warps": 1}))
    assert call(capsys, "audit", str(cache), "--specs", str(tmp_path / "one"))[0] == 1  # the object that is cut off
    (spec,) = (tmp_path / "one").glob("*.json")
    assert json.loads(spec.read_text())["block"] == [64, 1, 1] and call(capsys, "launch", str(spec), "--device", "emulator")[0] == 0
    for most, block in ((1024, 256), (512, 512)):  # what compilers allow unasked; what the author chose
        path = tmp_path / str(most)
        path.mkdir()
        (path / "k.co").write_bytes(assemble(RACY.replace("size: 1024", f"size: {most}"), "gfx942"))
        call(capsys, "audit", str(path), "--specs", str(path))
        assert json.loads(next(path.glob("*.json")).read_text())["block"] == [block, 1, 1]
    hidden = "{.offset: 12, .size: 4, .value_kind: hidden_dynamic_lds_size}"  # how much the launch alone says
    (path / "k.co").write_bytes(assemble(RACY.replace("{.offset: 12, .size: 12, .value_kind: by_value}", hidden), "gfx942"))
    call(capsys, "audit", str(path / "k.co"), "--specs", str(path / "more"))
    assert json.loads(next((path / "more").glob("*.json")).read_text())["dynamic_lds"] == 65536 - 512
