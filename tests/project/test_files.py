"""Files that commands write: whole or not at all, and a sentence that names the one that cannot be written."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from asmgen import files
from asmgen.files import FileError, write_plain
from asmgen.tools.cli import main

OLD, NEW = b"old", bytes(range(256)) * 1000


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_bytes(OLD)
    path.chmod(0o640)
    link.symlink_to("file")
    with path.open("rb") as reader:
        write_plain(link, NEW)
        assert reader.read() == OLD  # who reads the old one goes on reading it
    assert path.read_bytes() == NEW and link.is_symlink() and stat.S_IMODE(path.stat().st_mode) == 0o640
    write_plain(tmp_path / "new", b"")
    assert (tmp_path / "new").read_bytes() == b"" and sorted(os.listdir(tmp_path)) == ["file", "link", "new"]


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(OLD)

    def full(self: Path, data: bytes) -> int:
        self.touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(FileError, match="file: cannot be written: No space left on device"):
        write_plain(path, NEW)
    monkeypatch.undo()
    assert path.read_bytes() == OLD and os.listdir(tmp_path) == ["file"]


def test_pipes_devices_and_the_standard_output_are_not_replaced(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pipe, found = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    write_plain(pipe, NEW)
    reader.join()
    assert found == [NEW] and stat.S_ISFIFO(pipe.stat().st_mode)
    write_plain(Path("/dev/null"), NEW)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(FileError, match="/dev/full: cannot be written: No space left on device"):
        write_plain(Path("/dev/full"), NEW)
    write_plain(Path("/dev/stdout"), b"said\n")
    assert capfd.readouterr().out == "said\n"


@pytest.mark.parametrize("path", ["", "no/such/folder/file", "nul\0byte", "loop"])
def test_what_cannot_be_written_is_named(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(FileError, match="cannot be written: "):
        write_plain(Path(path), NEW)
    assert os.listdir(tmp_path) == ["loop"]


def test_commands_name_the_file_on_a_full_disk(capsys: pytest.CaptureFixture[str], tmp_path: Path,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    """All that write one, on a disk that fills up while the new file is written: the old one stays."""
    source, target = tmp_path / "a.s", tmp_path / "out"
    source.write_text("v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], v[0:3]\ns_endpgm\n")
    target.write_bytes(OLD)
    write_bytes = Path.write_bytes

    def full(self: Path, data: bytes) -> int:
        if self.name == target.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write_bytes(self, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    for arguments in (["inspect", str(source), "--arch", "gfx942", "--html"], ["layout", "v_mfma_f32_16x16x16_f16", "--svg"],
                      ["grid", "-p", "m=512", "-p", "n=512", "-p", "k=64", "-p", "tile=256x256x64", "--svg"],
                      ["layout", "gemm-bf16:A", "--svg"], ["profile", "01-vector-add", "-p", "n=512", "--trace"],
                      ["probe", "--device", "model", "barrier", "-o"]):
        with pytest.raises(SystemExit) as ended:
            main([*arguments, str(target)])
        said = capsys.readouterr()
        assert (ended.value.code, said.err) == (2, f"asmgen: {target}: cannot be written: No space left on device\n"), arguments
        assert target.read_bytes() == OLD and sorted(os.listdir(tmp_path)) == ["a.s", "out"]


def test_a_standard_output_that_is_full() -> None:
    with open("/dev/full", "w") as full:
        ended = subprocess.run([sys.executable, "-m", "asmgen.tools.cli", "layout", "v_mfma_f32_16x16x16_f16"], stdout=full,
                               stderr=subprocess.PIPE, text=True, check=False, cwd=Path(files.__file__).parent.parent)
    sentence = "asmgen: the standard output: cannot be read or written: No space left on device\n"
    assert (ended.returncode, ended.stderr) == (2, sentence)
