"""Files and specifications that mean harm: refused with one sentence, or bounded; nothing that a launch reads is overwritten."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asmgen.emulator.machine.devicememory import Memory
from asmgen.emulator.machine.errors import EmulatorError
from asmgen.emulator.scheduling.orders import order_of
from asmgen.files import FileError, read_plain
from asmgen.isa.errors import AsmgenError
from asmgen.isa.quote import MOST_QUOTED, quoted, shorten, shown
from asmgen.launch.buffers import buffer_shapes
from asmgen.launch.saves import Save, write_all
from asmgen.launch.spec import SpecError, parse_spec, read_spec
from asmgen.launch.specrun import run_launch_spec
from asmgen.reader.errors import ReadError
from asmgen.reader.file import read_file
from asmgen.reader.limits import Limited
from asmgen.scratch import scratch_folder
from asmgen.toolchain import assemble
from asmgen.tools import cli
from tests.clang_objects import needs_clang
from tests.fuzz.cases import ARCH, KERNEL, SPEC

TARGET = '.amdgcn_target "amdgcn-amd-amdhsa--gfx950"\n'


@pytest.mark.parametrize(("value", "text"), [("ab", "'ab'"), ([1, "x"], "[1, 'x']"), (None, "None"), (1.5, "1.5"), ("\ud800", r"'\ud800'")])
def test_a_short_value_is_quoted_as_it_is(value: object, text: str) -> None:
    assert quoted(value) == text


@pytest.mark.parametrize("value", ["x" * 10**6, [["y" * 1000] * 99] * 99, {str(n): n for n in range(9999)}, 10**4000, 10**5000, "\n" * 500,
                                   np.zeros(10**5)], ids=range(7))
def test_a_long_value_is_quoted_shortly(value: object) -> None:
    assert len(quoted(value)) <= MOST_QUOTED and quoted(value).isprintable()


def test_deep_values_and_names_are_quoted_shortly() -> None:
    deep: list[Any] = []
    for _ in range(900):
        deep = [deep]
    assert len(quoted(deep)) < MOST_QUOTED
    assert shown("a" * 500 + "/k.co").endswith("a/k.co") and len(shown("b" * 500)) == MOST_QUOTED
    assert shorten("x" * 101) == "x" * 97 + "..." and shorten("a\x1bb") == "a?b"


def test_only_plain_files_of_a_size_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    (tmp_path / "f").write_bytes(b"12345")
    assert read_plain(tmp_path / "f", 5) == b"12345"
    refused = (("pipe", "it is a pipe"), ("link", "it is a device"), (".", "it is a folder"), ("g", "No such file"), ("f", "4 are"))
    for name, sentence in refused:
        with pytest.raises(FileError, match=sentence):
            read_plain(tmp_path / name, 4)


@pytest.mark.parametrize("command", ["lint", "inspect", "explain", "launch"])
@pytest.mark.parametrize("name", ["/dev/zero", "/dev/full", "pipe", "large.s"])
def test_each_command_refuses_what_is_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large.s").open("wb") as file:
        file.truncate(1 << 34)
    with pytest.raises(SystemExit) as ended:
        cli.main([command, f"{tmp_path / name}{':1' * (command == 'explain')}"])
    err = capsys.readouterr().err
    assert ended.value.code == 2 and err.count("\n") == 1 and "cannot be read" in err


@needs_clang
@pytest.mark.parametrize("text", [
    '.incbin "/dev/zero"', '.INCLUDE "/dev/zero"', 'x: .incbin "/dev/full"', ".macro z f\n.incbin \"\\f\"\n.endm\nz /dev/zero",
    ".macro z f\n.incbin \"\\f\"\n.endm\nz pipe", ".rept 999\n.rept 999\n.rept 999\ns_nop 0\n.endr\n.endr\n.endr",
    ".rept 999\n.rept 999\n.rept 999\n.quad 0\n.endr\n.endr\n.endr", ".fill 900000, 8, 1\n.fill 900000, 8, 1",
    ".rept 150000\ns_nop 0\n.endr", ".rept 300\n.rept 300\nv_mov_b32 v0, v1\n.endr\n.endr",
])
def test_what_clang_would_fetch_or_repeat_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("asmgen.reader.limits._SECONDS", 1)
    os.mkfifo("pipe")
    Path("k.s").write_text(f"{TARGET}s_nop 0\n{text}\n")
    began = time.process_time()
    with pytest.raises(AsmgenError, match=r"no plain file|clang was stopped|too many to read") as caught:
        read_file("k.s")
    assert time.process_time() - began < 3 and len(str(caught.value)) < 400


def test_a_tool_on_a_busy_machine_waits_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A right file must not be refused because others take the processors: only the time by the clock grows, not the processor's."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)

    def at_load(load: float) -> tuple[int, float]:
        monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
        limits = Limited.for_text(1000)
        return limits.seconds, limits.bounds.seconds

    (processor, quiet), busy = at_load(0.5), at_load(9.0)
    assert processor <= quiet <= 5 and busy == (processor, 5 * quiet)


@needs_clang
def test_files_that_include_each_other_twice_come_to_an_end(tmp_path: Path) -> None:
    for number in range(19):
        (tmp_path / f"{number}.s").write_text(f'.include "{number + 1}.s"\n' * 9 + f"; {'x' * 2000}\n")
    (tmp_path / "19.s").write_text("s_nop 0\n")
    with pytest.raises(ReadError, match="more than 500 included files"):
        read_file(tmp_path / "0.s", ARCH)


# Specifications.


@pytest.fixture(scope="module")
def image(objdump: tuple[str, ...]) -> bytes:
    return assemble(KERNEL, ARCH)


@pytest.fixture
def folder(tmp_path: Path, image: bytes) -> Path:
    (tmp_path / "k.co").write_bytes(image)
    np.save(tmp_path / "a.npy", np.arange(64, dtype=np.float32))
    return tmp_path


def launch(folder: Path, args: list[dict[str, Any]] | None = None, **more: Any) -> None:
    path = folder / "spec.json"
    limit = more.pop("memory_limit", 1 << 31)
    path.write_text(json.dumps({**SPEC, **more, **({"args": args} if args is not None else {})}))
    run_launch_spec(path, "emulator", memory_limit=limit)


def pointers(**changes: Any) -> list[dict[str, Any]]:
    return [{"buffer": "a.npy", **changes}, {"zeros": 4096, "save": "o.bin"}, {"scalar": "f32", "value": 1}, {"scalar": "u32", "value": 1}]


def test_a_good_one_passes(folder: Path) -> None:
    launch(folder, pointers(save="o.npy"))
    assert np.fromfile(folder / "o.bin", np.float32)[:64].tolist() == list(range(1, 65))
    assert np.load(folder / "o.npy").dtype == np.float32
    launch(folder, pointers(save="a.npy"))  # over its own file
    assert sorted(path.name for path in folder.iterdir()) == ["a.npy", "k.co", "o.bin", "o.npy", "spec.json"]


@pytest.mark.parametrize(("text", "sentence"), [
    ('{"grid": [1' + "0" * 5000 + "]}", "5001 digits"),
    ('{"code_object": "k", "grid": [], "block": [], "order": 9' + "9" * 990 + "}", "'order' is a text"),
    ("[" * 100_000, "nested too deeply"),
])
def test_numbers_without_end(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(SpecError, match=sentence) as caught:
        read_spec(tmp_path / "s.json")
    assert len(caught.value.sentence) < 500


@pytest.mark.parametrize(("changes", "sentence"), [
    ({"order": "random:" + "9" * 5000}, "'order' is"), ({"order": "random:\u0663"}, "'order' is"),
    ({"kernel": ["x" * 9999]}, "'kernel' is a text"),
    ({"grid": [10**900, 1, 1]}, "each of 'grid'"), ({"args": [{"zeros": 1, "save": "\ud800"}]}, "a file's name"),
    ({"args": [{"buffer": "\udc80"}]}, "a file's name"), ({"args": [{"scalar": "u64", "value": 10**900}]}, "holds 0 to"),
])
def test_what_is_quoted_is_short(changes: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=sentence) as caught:
        parse_spec({**SPEC, **changes}, tmp_path)
    assert len(caught.value.sentence) < 450 and caught.value.sentence.isprintable()


def test_a_seed_of_an_order_is_short() -> None:
    for name in ("random:" + "9" * 5000, "random:\u0663", "random:"):
        with pytest.raises(EmulatorError, match="unknown order"):
            order_of(name)


@pytest.mark.parametrize(("args", "sentence"), [
    ([{"zeros": 1 << 34}, {"zeros": 1 << 34}], "34359738368 bytes, and 2147483648 are the most"),
    ([{"buffer": "sparse.bin"}], "are the most"), ([{"buffer": "huge.npy"}], "cut off"), ([{"buffer": "objects.npy"}], "plain numbers"),
    ([{"buffer": "/dev/zero"}], "no plain file"), ([{"buffer": "pipe"}], "no plain file"), ([{"buffer": "empty.npy"}], "plain numbers"),
    ([{"zeros": 8, "save": "/dev/null"}], "no plain file"), ([{"zeros": 8, "save": "pipe"}], "no plain file"),
    ([{"zeros": 8, "save": "absent/o"}], "there is no folder"), ([{"zeros": 8, "save": "loop"}], "cannot be written"),
])
def test_buffers_are_judged_before_any_is_allocated(folder: Path, args: list[dict[str, Any]], sentence: str,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    with (folder / "sparse.bin").open("wb") as file:
        file.truncate(1 << 33)
    np.save(folder / "objects.npy", np.array([None]), allow_pickle=True)
    np.save(folder / "empty.npy", np.zeros(1, "V0"))
    good = (folder / "a.npy").read_bytes()
    (folder / "huge.npy").write_bytes(good.replace(b"(64,), }            ", b"(9999999999999,), }  ", 1))
    monkeypatch.setattr(Memory, "allocate", lambda *_: pytest.fail("memory was asked for"))
    with pytest.raises(SpecError, match=sentence):
        launch(folder, args)


def test_the_limit_counts_all_buffers_exactly(folder: Path) -> None:
    launch(folder, pointers(), memory_limit=4096 + 256)
    with pytest.raises(SpecError, match="--memory-limit 4352 would"):
        launch(folder, pointers(), memory_limit=4096 + 255)
    shapes = buffer_shapes(parse_spec({**SPEC, "args": [{"buffer": "a.npy"}, {"scalar": "f32", "value": 0}, {"zeros": 3}]}, folder))
    assert {at: shape.nbytes for at, shape in shapes.items()} == {(0, 0): 256, (0, 2): 3}


@pytest.mark.parametrize("spelling", ["{}", "./{}", "sub/../{}", "symbolic", "hard", "folder/{}"])
@pytest.mark.parametrize("what", ["k.co", "spec.json", "b.npy", "o.bin"])
def test_no_save_over_what_the_launch_reads_or_saves(folder: Path, what: str, spelling: str) -> None:
    (folder / "sub").mkdir()
    (folder / "folder").symlink_to(".")
    np.save(folder / "b.npy", np.zeros(1024, np.float32))
    for name in ("spec.json", "o.bin"):
        (folder / name).write_bytes(b"{}")
    (folder / "symbolic").symlink_to(what)
    (folder / "hard").hardlink_to(folder / what)
    before = {name: (folder / name).read_bytes() for name in ("k.co", "a.npy", "b.npy", "o.bin")}
    args = [{"buffer": "b.npy"}, *pointers()[1:], {"offset": 48, "zeros": 8, "save": spelling.format(what)}]
    sentence = {"k.co": "the code object", "spec.json": "the specification itself", "b.npy": "that argument 0 is read",
                "o.bin": "argument 1 is saved"}
    with pytest.raises(SpecError, match=f"{sentence[what]}|two arguments are saved to 'o.bin'"):
        # The specification is rewritten in place, so that its second names stay second names.
        launch(folder, args)
    assert all((folder / name).read_bytes() == data for name, data in before.items())


def test_a_new_file_named_twice_is_found(folder: Path) -> None:
    (folder / "folder").symlink_to(".")
    with pytest.raises(SpecError, match="what argument 1 is saved to"):
        launch(folder, [*pointers(), {"offset": 48, "zeros": 8, "save": "folder/o.bin"}])


def failing(at: int) -> Callable[[Any], None]:
    def write(file: Any) -> None:
        file.write(b"new")
        if at:
            raise OSError(28, "No space left on device")

    return write


def test_when_one_save_fails_none_is_left(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"old")
    with pytest.raises(SpecError, match="No space left on device") as caught:
        write_all([Save(tmp_path / "old", failing(0)), Save(tmp_path / "new", failing(0)), Save(tmp_path / "last", failing(1))], "spec")
    assert "nothing was saved" in caught.value.sentence and str(tmp_path / "last") in caught.value.sentence
    assert [path.name for path in tmp_path.iterdir()] == ["old"] and (tmp_path / "old").read_bytes() == b"old"


def test_when_one_cannot_be_renamed_the_old_ones_come_back(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "old").chmod(0o640)
    (tmp_path / "taken" / "x").mkdir(parents=True)
    with pytest.raises(SpecError, match="nothing was saved"):
        write_all([Save(tmp_path / "old", failing(0)), Save(tmp_path / "new", failing(0)), Save(tmp_path / "taken", failing(0))], "spec")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old", "taken"] and (tmp_path / "old").read_bytes() == b"old"
    assert write_all([Save(tmp_path / "old", failing(0)), Save(tmp_path / "new", failing(0))], "spec") == [
        str(tmp_path / "old"), str(tmp_path / "new")]
    assert (tmp_path / "old").read_bytes() == b"new" and (tmp_path / "old").stat().st_mode & 0o777 == 0o640


@pytest.mark.slow
def test_many_arguments_take_time_in_proportion(folder: Path) -> None:
    def seconds(count: int) -> float:
        more = [{"offset": 64 + 8 * number, "zeros": 8, "save": f"out/{number}"} for number in range(count)]
        began = time.process_time()
        launch(folder, [*pointers(), *more])
        return time.process_time() - began

    (folder / "out").mkdir()
    seconds(10)
    assert seconds(8_000) < 12 * seconds(2_000)  # 16 times where it is quadratic
    assert len(list((folder / "out").iterdir())) == 8_000


# Folders in the making.


def test_the_folder_of_a_killed_process_is_removed_and_of_a_living_one_is_not(tmp_path: Path) -> None:
    code = ("import time, pathlib, sys\nfrom asmgen.scratch import scratch_folder\nwith scratch_folder(pathlib.Path(sys.argv[1])) as f:\n"
            "    (f / 'x').write_text('x')\n    print('there', flush=True)\n    time.sleep(60)\n")
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"there\n"
        with scratch_folder(tmp_path):
            assert len(list(tmp_path.iterdir())) == 2
        process.kill()
    (left,) = tmp_path.iterdir()
    with scratch_folder(tmp_path) as mine:
        assert not left.exists() and mine.parent == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_other_files_with_such_names_stay(tmp_path: Path) -> None:
    (tmp_path / ".asmgen-99999999-abc").write_text("a file")
    (tmp_path / ".asmgen-notes").mkdir()
    (tmp_path / "kept").mkdir()
    (tmp_path / ".asmgen-99999998-link").symlink_to("kept")
    with scratch_folder(tmp_path):
        pass
    assert len(list(tmp_path.iterdir())) == 4


# The command line.


def test_an_internal_error_is_a_sentence_that_says_so(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asmgen.tools.inspection.inspection.inspect_file", lambda *_: {}["x"])
    with pytest.raises(SystemExit) as ended:
        cli.main(["inspect", "x.s"])
    err = capsys.readouterr().err
    assert ended.value.code == 2 and err.startswith("asmgen: internal error") and "KeyError at test_hostile_files.py" in err
    monkeypatch.setenv("ASMGEN_TRACEBACK", "1")
    with pytest.raises(KeyError):
        cli.main(["inspect", "x.s"])


@pytest.mark.parametrize("budget", ["0", "-1", "x", "9" * 5000])
def test_a_budget_is_at_least_one(capsys: pytest.CaptureFixture[str], budget: str) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["launch", "x.json", "--budget", budget])
    err = capsys.readouterr().err
    assert ended.value.code == 2 and err.count("\n") == 1 and "budget" in err or "9" in budget
    assert len(err) < 600
