"""The command line as a new user meets it: what it prints, what it writes, and how it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from asmgen.tools.cli import main

BUILT = "gemm-bf16_gfx950_128x128x64_interleave"  # the files of a build without parameters


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit status, stdout, stderr."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one sentence of a refusal."""
    status, out, err = call(capsys, *arguments)
    assert status == 2
    assert out == ""
    lines = err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("asmgen: ") and not lines[0].startswith("asmgen: internal error"), err
    return lines[0]


def test_build_writes_three_files_and_names_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = call(capsys, "build", "gemm-bf16", "--arch", "gfx942", "-o", str(tmp_path / "new"))
    assert (status, err) == (0, "")
    name = "gemm-bf16_gfx942_128x128x64_interleave"
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [f"{name}.co", f"{name}.json", f"{name}.s"]
    assert out.split() == [str(tmp_path / "new" / f"{name}.{suffix}") for suffix in ("s", "co", "json")]
    described = json.loads((tmp_path / "new" / f"{name}.json").read_text())
    assert described["kernel"] == "gemm-bf16" and described["arch"] == "gfx942"
    assert described["symbol"] == "gemm_bf16_gfx942_128x128x64_interleave"
    assert {"tile": "128x128x64", "schedule": "interleave", "preload": False}.items() <= described["build"].items()
    assert described["workgroup"] == [256, 1, 1] and described["lds_bytes"] == 32768
    assert (tmp_path / "new" / f"{name}.co").read_bytes()[:4] == b"\x7fELF"


def test_the_text_is_what_clang_gets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The .s assembles outside of asmgen to the same code object."""
    _, out, _ = call(capsys, "build", "gemm-bf16", "-p", "preload=true", "-o", str(tmp_path), "--json")
    from asmgen.codeobject.load import CodeObject
    from asmgen.toolchain import assemble

    text, code_object, _ = map(Path, json.loads(out))
    ours = CodeObject.load(code_object)
    again = CodeObject.load(assemble(text.read_text(), "gfx950"))
    assert ours.data == again.data


@pytest.mark.slow
def test_two_builds_are_the_same_bytes(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        environment = {**os.environ, "PYTHONHASHSEED": folder.replace("one", "1").replace("two", "2")}
        subprocess.run([sys.executable, "-m", "asmgen.tools.cli", "build", "gemm-bf16", "-o", str(tmp_path / folder)], check=True,
                       env=environment, stdout=subprocess.DEVNULL)
    for name in (f"{BUILT}.s", f"{BUILT}.co", f"{BUILT}.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@pytest.mark.needs_objdump
def test_run_prints_json_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    request = ("run", "gemm-bf16", "--arch", "gfx942", "--device", "emulator", "-p", "m=33", "-p", "n=17", "-p", "k=64", "--json")
    status, out, err = call(capsys, *request)
    report = json.loads(out)
    assert status == 0 and report["passed"] is True
    fields = {"kernel", "arch", "device", "passed", "max_abs_error", "max_rel_error", "wave_instructions", "seconds", "findings"}
    assert fields <= set(report)
    assert report["findings"] == [] and report["lds_bank_conflicts"] == 0 and report["device"] == "emulator"
    share = report["executed"]
    assert 0 < share["instructions"] < share["of"] and share["share"] == share["instructions"] / share["of"]  # a tile that is cut, no loop
    assert err == "asmgen: running on the emulator of gfx942, as asked\n"


@pytest.mark.needs_objdump
@pytest.mark.slow
def test_auto_says_why_it_takes_the_emulator(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = call(capsys, "run", "gemm-bf16", "-p", "m=1", "-p", "n=1", "-p", "k=64")
    assert status == 0 and "passed" in out
    assert "emulator of gfx950: " in err


def test_wrong_requests_are_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean 'gemm-bf16'" in refused(capsys, "build", "gemm-bf")
    assert "gfx950 and gfx942 would work" in refused(capsys, "build", "gemm-bf16", "--arch", "gfx90a", "-o", str(tmp_path / "x"))
    assert "'preload'" in refused(capsys, "build", "gemm-bf16", "-p", "preloda=1")
    assert "run parameter" in refused(capsys, "build", "gemm-bf16", "-p", "m=4")
    assert "multiple of 32, got 65" in refused(capsys, "run", "gemm-mx", "-p", "m=1", "-p", "n=1", "-p", "k=65")
    assert "lda must be at least k" in refused(capsys, "run", "gemm-bf16", "-p", "m=1", "-p", "n=1", "-p", "k=128", "-p", "lda=64")
    assert "n" in refused(capsys, "run", "gemm-bf16", "-p", "m=1", "-p", "k=64")
    assert "auto, hip and emulator" in refused(capsys, "run", "gemm-bf16", "-p", "m=1", "-p", "n=1", "-p", "k=64", "--device", "cuda")
    refused(capsys, "frobnicate")
    refused(capsys, "build")
    refused(capsys, "build", "gemm-bf16", "--nonsense")
    assert not (tmp_path / "x").exists()


@pytest.mark.slow
def test_an_unwritable_folder_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    assert "cannot write gemm-bf16" in refused(capsys, "build", "gemm-bf16", "-o", str(tmp_path / "file"))
    assert (tmp_path / "file").read_text() == "in the way"
    assert "-o" in refused(capsys, "build", "gemm-bf16", "-o", "/proc/nothing")


def test_without_a_toolchain_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASMGEN_CLANG", "/nowhere/clang")
    sentence = refused(capsys, "build", "gemm-bf16", "-o", str(tmp_path / "out"))
    assert "/nowhere/clang" in sentence
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"not a code object", bytes(range(256)) * 8, None])
def test_a_corrupt_or_missing_code_object(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None) -> None:
    path = tmp_path / "k.co"
    if content is not None:
        path.write_bytes(content)
    assert "k.co" in refused(capsys, "inspect", str(path))


@pytest.mark.needs_objdump
@pytest.mark.slow
def test_inspect_a_code_object_of_ours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, "build", "gemm-bf16", "-o", str(tmp_path))
    status, out, _ = call(capsys, "inspect", str(tmp_path / f"{BUILT}.co"), "--json")
    (report,) = json.loads(out)["kernels"]
    assert status == 0
    assert report["agpr"] == 64 and report["lds"] == 65536 and report["spills"] == 0 and report["occupancy"] == 2
    lines = (tmp_path / f"{BUILT}.s").read_text().splitlines()
    written = [line.split()[0] for line in lines if line.startswith((" ", "\t")) and line.strip()]
    for group, begin in (("matrix", "v_mfma"), ("lds_read", "ds_read"), ("global_store", "buffer_store"), ("wait", "s_waitcnt")):
        assert report["groups"][group] == sum(name.startswith(begin) for name in written) > 0
    assert report["groups"]["lds_dma"] == sum(name == "buffer_load_dwordx4" for name in written) > 0
    loop, *_ = report["loops"]  # behind it corners of tiles have loops of their own
    assert (loop["mfma"], loop["barriers"], loop["groups"]["lds_dma"]) == (64, 8, 16)
    assert sum(report["groups"].values()) == report["instructions"]
    owners = [cell for row in report["register_map"]["rows"] for cell in row["cells"]]
    assert "C" in owners and "main loop" in report["register_map"]["regions"]
    status, out, _ = call(capsys, "inspect", str(tmp_path / f"{BUILT}.co"))
    assert "64 of them AGPRs" in out and "64 MFMA" in out and "k_offset" in out
    assert out.splitlines()[:5] == call(capsys, "inspect", str(tmp_path / f"{BUILT}.s"))[1].splitlines()[:5]  # title, registers, occupancy


@pytest.mark.needs_objdump
def test_a_map_that_belongs_to_other_bytes_is_not_believed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, "build", "gemm-bf16", "-o", str(tmp_path))
    described = json.loads((tmp_path / f"{BUILT}.json").read_text())
    described["code_object_sha256"] = "0" * 64
    (tmp_path / f"{BUILT}.json").write_text(json.dumps(described))
    _, out, _ = call(capsys, "inspect", str(tmp_path / f"{BUILT}.co"), "--json")
    assert "k_offset" not in out


@pytest.mark.slow
def test_list_and_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = call(capsys, "list")
    assert status == 0 and "gemm-bf16" in out and "multiple of 64" in out and "{" not in out
    status, out, _ = call(capsys, "list", "--json", "--arch", "gfx942")
    rows = json.loads(out)
    by_name = {row["kernel"]: row for row in rows}
    assert list(by_name) == ["01-vector-add", "02-row-sum", "03-transpose", "04-mfma-tile", "activation", "attention-backward",
                             "attention-forward", "gemm-bf16", "gemm-fp8", "norm", "norm-backward", "quantize", "rope", "softmax"]
    gemm = by_name["gemm-bf16"]
    assert gemm["workgroup"] == [256, 1, 1] and {variant["arch"] for variant in gemm["variants"]} == {"gfx950", "gfx942"}
    choices = {name: parameter.get("choices") for name, parameter in by_name["attention-forward"]["parameters"].items()}
    assert (choices["d"], choices["waves"], choices["rounding"]) == ([128, 64], [8], ["nearest", "truncated"])  # of any of its variants
    assert "first variant of gfx950; --arch gfx942 shows the other" in call(capsys, "list")[1]
    assert "gfx942" in refused(capsys, "list", "--arch", "gfx1100")
    status, out, _ = call(capsys, "list", "norm", "03-transpose", "--json")
    assert status == 0 and [row["kernel"] for row in json.loads(out)] == ["norm", "03-transpose"]
    assert "variant arch=gfx942 waves=4\n" in call(capsys, "list", "03-transpose")[1]  # nothing is said of what a variant has not
    assert "gfx950 would work" in refused(capsys, "list", "gemm-mx", "--arch", "gfx942")
    assert "did you mean 'norm'" in refused(capsys, "list", "nrom")
    assert "takes no kernel" in refused(capsys, "list", "--isa", "norm")
    for command in ("profile", "banks", "run", "build"):
        assert "k.co' names a file of code, where a kernel of the library or FILE.py:NAME is wanted" in refused(capsys, command, "k.co")
    status, out, _ = call(capsys, "list", "--isa", "--arch", "gfx942")
    assert status == 0 and "v_mfma_f32_16x16x16_bf16" in out and "v_permlane16_swap_b32" not in out
    status, out, _ = call(capsys, "doctor")
    assert status == 0 and "clang" in out and "ziglang" in out
