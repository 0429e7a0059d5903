"""A user's own file builds and runs like the library's: FILE.py:NAME."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.test_cli import call, refused

KERNEL = '''
from helper import TITLE
import asmgen as ag

def problem(p, seed):
    import numpy as np
    x = np.random.default_rng(seed).integers(0, 99, (p["groups"], 64)).astype(np.uint32)
    return ag.Problem({"x": x, "d": np.zeros_like(x)}, (ag.Output("d", 2.0 * x),))

DOUBLE = ag.Family(
    name="twice", title=TITLE, problem=problem,
    arguments=(ag.ContractArgument("x", "pointer", "x"), ag.ContractArgument("d", "pointer", "d")),
    parameters=(ag.Parameter("groups", "run", int, "of 64 numbers", default=3, minimum=1),),
    grid=ag.GridRule("one workgroup for 64 numbers", lambda p, variant: (p["groups"], 1, 1)))

@DOUBLE.variant("gfx942")
def twice(k):
    at, x = k.registers.vgprs(1, "at"), k.registers.vgprs(1, "x")
    k.v_mov_b32(at, k.ids["x"])
    k.v_lshl_add_u32(at, at, 6, k.work_item)
    k.v_lshlrev_b32(at, 2, at)
    k.global_load_dword(x, at, k.argument("x"))
    k.v_lshlrev_b32(x, 1, x)
    k.global_store_dword(at, x, k.argument("d"))
'''


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file and the helper beside it; the tests' folder is another one."""
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "my_kernel.py").write_text(KERNEL)
    (folder / "helper.py").write_text("TITLE = 'd = 2 x'\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "helper", raising=False)
    return folder / "my_kernel.py"


@pytest.mark.needs_objdump
@pytest.mark.parametrize("name", ["twice", "DOUBLE"])
def test_it_builds_runs_and_inspects(own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    status, out, _ = call(capsys, "build", f"{own}:{name}", "-o", str(tmp_path / "out"), "--json")
    assert status == 0 and [Path(path).name for path in json.loads(out)] == [f"twice_gfx942.{suffix}" for suffix in ("s", "co", "json")]
    status, out, _ = call(capsys, "run", f"{own}:{name}", "-p", "groups=5", "--device", "emulator", "--json")
    assert status == 0 and json.loads(out)["passed"] and json.loads(out)["kernel"] == "twice"
    status, out, _ = call(capsys, "inspect", str(tmp_path / "out" / "twice_gfx942.co"))
    assert status == 0 and "at" in out and "twice_gfx942" in out
    text = (tmp_path / "out" / "twice_gfx942.s").read_text()
    assert "my_kernel.py:16" in text and "my_kernel.py:18" in text, "what the builder pins is from the decorator's line"
    assert str(tmp_path) not in text


@pytest.mark.needs_objdump
@pytest.mark.parametrize("finish", ["verify", "off"])
def test_what_lint_calls_an_error_is_refused(own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], finish: str) -> None:
    """x is used while it is on its way: in a kernel of the author's own waits, checked or not."""
    own.write_text(f"{KERNEL}    k.s_endpgm()\n    return k.finish(waits={finish!r}, wait_states={finish!r})\n")
    arguments = f"{own}:twice", "-o", str(tmp_path / "out")
    status, out, err = call(capsys, "build", *arguments)
    lines = err.splitlines()
    assert (status, out) == (1, "") and not (tmp_path / "out").exists()
    assert len(lines) == 3 and all(line.endswith("[W001]") for line in lines[:-1])
    assert "my_kernel.py:22: error: global_load_dword reads s[4:7] while s_load_dwordx4" in lines[0]
    assert "my_kernel.py:23: error: v_lshlrev_b32 reads v2 while global_load_dword" in lines[1]
    assert lines[-1].startswith("asmgen: twice_gfx942 has 2 errors") and "--no-verify" in lines[-1]
    assert call(capsys, "build", *arguments, "--json")[:2] == (1, "[]\n")
    status, out, err = call(capsys, "run", f"{own}:twice", "--device", "emulator", "--json")
    report = json.loads(out)
    assert status == 1 and not report["passed"] and report["findings"][0]["rule"] == "W001" and "my_kernel.py:23" in err
    status, out, err = call(capsys, "build", *arguments, "--no-verify")
    assert (status, err) == (0, "") and (tmp_path / "out" / "twice_gfx942.co").exists()
    status, out, _ = call(capsys, "run", f"{own}:twice", "--device", "emulator", "--no-verify", "--json")
    assert status == 1 and {finding["check"] for finding in json.loads(out)["findings"]} >= {"read-before-wait"}


@pytest.mark.needs_objdump
def test_a_part_whose_waits_are_off_is_judged_too(own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = "    k.v_lshlrev_b32(x, 1, x)\n"
    for before, status in (("", 1), ("        k.s_waitcnt(vmcnt=0, lgkmcnt=0)\n", 0)):
        own.write_text(KERNEL.replace(line, f"    with k.waits('off'):\n{before}    {line}"))
        assert call(capsys, "build", f"{own}:twice", "-o", str(tmp_path / "out"))[0] == status


def test_refusals_are_one_sentence(own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no file" in refused(capsys, "build", f"{tmp_path}/none.py:twice")
    assert "did you mean 'twice'? (known are twice)" in refused(capsys, "build", f"{own}:twize")
    assert "is named FILE.py:NAME; known are twice" in refused(capsys, "run", f"{own}")
    (tmp_path / "empty.py").write_text("x = 5\n")
    assert "none of its variables holds an asmgen Family" in refused(capsys, "build", f"{tmp_path}/empty.py:x")
    (tmp_path / "raises.py").write_text("a = 1\nb = a / 0\n")
    assert "line 2 raised ZeroDivisionError: division by zero" in refused(capsys, "build", f"{tmp_path}/raises.py:x")
    (tmp_path / "exits.py").write_text("import sys\nsys.exit(3)\n")
    assert "line 2 raised SystemExit" in refused(capsys, "build", f"{tmp_path}/exits.py:x")
    (tmp_path / "typo.py").write_text("a = 1\ndef f(:\n")
    assert "is no Python" in (text := refused(capsys, "build", f"{tmp_path}/typo.py:x")) and "line 2 of typo.py" in text
    (tmp_path / "wrong.py").write_text("import asmgen as ag\nag.Parameter('x', 'maybe', int, 'x')\n")
    assert "a parameter is of kind build or run" in refused(capsys, "build", f"{tmp_path}/wrong.py:x")
    assert "FILE.py:NAME" in refused(capsys, "build", "my_kernel:twice")
    own.write_text(KERNEL.replace("k.ids[", "k.idz[", 1))
    assert "AttributeError" in (text := refused(capsys, "build", f"{own}:twice", "-o", str(tmp_path / "o"))) and "my_kernel.py:19" in text


@pytest.mark.slow
def test_the_same_bytes_from_two_folders(own: Path, tmp_path: Path) -> None:
    """Each copy is built in its own working folder, as two users would."""
    built = []
    for folder in ("here", "there/deep"):
        home = tmp_path / folder
        home.mkdir(parents=True)
        for name in ("my_kernel.py", "helper.py"):
            (home / name).write_text((own.parent / name).read_text())
        root = Path(__file__).resolve().parents[2]
        subprocess.run([sys.executable, "-m", "asmgen.tools.cli", "build", "my_kernel.py:twice", "-o", "out"], check=True, cwd=home,
                       stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(root)})
        built.append({path.name: path.read_bytes() for path in (home / "out").iterdir()})
    assert len(built[0]) == 3 and built[0] == built[1]
