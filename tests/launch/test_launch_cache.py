"""The cache of built files: nothing damaged is used, nothing half written appears, and no cache at all costs only time."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import signal
import socket
import time
from pathlib import Path

import pytest

from asmgen import files
from asmgen.kernels import built
from asmgen.kernels.built import code_object
from asmgen.kernels.registry import family as find_family
from asmgen.launch import cache
from asmgen.launch.cache import TRAILER_BYTES, cache_folder, cached, cached_file, key_of, read_checked, write_checked
from asmgen.tools.running.build import build_kernel

PAYLOAD = bytes(range(256)) * 50


def never() -> bytes:
    raise AssertionError("it was made again")


def test_what_was_made_once_is_found(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    assert cached(path, lambda: PAYLOAD) == PAYLOAD
    assert cached(path, never) == PAYLOAD and cached_file(path, never) == path
    assert os.listdir(path.parent) == ["file"]
    assert path.read_bytes()[:-TRAILER_BYTES] == PAYLOAD


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[: len(data) // 2], lambda data: b"", lambda data: data + b"x",
                                    lambda data: bytes([data[0] ^ 1]) + data[1:], lambda data: data[:-1] + bytes([data[-1] ^ 1]),
                                    lambda data: b"\0" * len(data)], ids=range(7))
def test_damaged_files_are_made_again(tmp_path: Path, damage: object) -> None:
    path = tmp_path / "file"
    write_checked(path, PAYLOAD)
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    assert read_checked(path) is None
    assert cached(path, lambda: PAYLOAD) == PAYLOAD
    assert read_checked(path) == PAYLOAD


def place(kind: str, path: Path) -> None:
    """Something that is no plain file where a cache entry should be."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "terminal":
        path.symlink_to("/dev/tty")
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(os.path.relpath(path))  # a path of a socket is short
    else:
        path.symlink_to("nowhere")


@pytest.mark.parametrize("kind", ["pipe", "folder", "loop", "device", "terminal", "socket", "dangling"])
def test_what_is_no_plain_file_is_made_again(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "file"
    place(kind, path)
    assert read_checked(path) is None
    assert cached(path, lambda: PAYLOAD) == PAYLOAD
    if kind != "folder":
        assert read_checked(path) == PAYLOAD and path.is_file() and not path.is_symlink()
    assert read_checked(cached_file(path, lambda: PAYLOAD)) == PAYLOAD


def test_a_pipe_that_takes_the_place_of_a_file_just_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_checked(path, PAYLOAD)
    known = os.stat(path)
    path.unlink()
    os.mkfifo(path)
    monkeypatch.setattr(files.os, "stat", lambda name, **more: known)
    assert read_checked(path) is None


@pytest.mark.parametrize(("there", "here"), [("kernels/a.co", "kernels/b.co"), ("one/lib/file", "two/lib/file")])
def test_a_file_of_another_name_is_not_taken(there: str, here: str, tmp_path: Path) -> None:
    write_checked(tmp_path / there, PAYLOAD)
    (tmp_path / here).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(tmp_path / there, tmp_path / here)
    assert read_checked(tmp_path / there) == PAYLOAD and read_checked(tmp_path / here) is None
    assert cached(tmp_path / here, lambda: b"mine") == b"mine" and read_checked(tmp_path / here) == b"mine"


def test_a_cache_that_was_moved_still_serves(tmp_path: Path) -> None:
    write_checked(tmp_path / "old" / "asmgen" / "kernels" / "file", PAYLOAD)
    (tmp_path / "old").rename(tmp_path / "new")
    assert read_checked(tmp_path / "new" / "asmgen" / "kernels" / "file") == PAYLOAD


def test_another_kernels_code_object_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a trailer that fits the name too: the kernel in it has another name, or is for another architecture."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    add = find_family("01-vector-add")
    right = code_object(add, "gfx942", {})
    (path,) = (tmp_path / "asmgen" / "kernels").iterdir()
    others = ((find_family("02-row-sum"), "gfx942"), (add, "gfx950"))
    for data in (b"", b"no code object", *(build_kernel(*other, {}).code_object for other in others)):
        write_checked(path, data)
        assert code_object(add, "gfx942", {}).data == right.data
        assert read_checked(path) == right.data


def test_a_code_object_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file and its kernel have the name that tells variants apart."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    gemm = find_family("gemm-bf16")
    first = code_object(gemm, "gfx942", {"out": "f32"})
    (path,) = (tmp_path / "asmgen" / "kernels").iterdir()
    assert path.name.replace("-", "_").startswith(next(iter(first.kernels)) + "_") and first.kernel().name[-9] == "_"
    monkeypatch.setattr(built, "assemble", None)
    assert code_object(gemm, "gfx942", {"out": "f32"}).data == first.data


def test_an_empty_payload_is_one(tmp_path: Path) -> None:
    write_checked(tmp_path / "file", b"")
    assert read_checked(tmp_path / "file") == b""


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the folder should be")
    assert cached(blocked / "file", lambda: PAYLOAD) == PAYLOAD
    elsewhere = cached_file(blocked / "file", lambda: PAYLOAD)
    assert read_checked(elsewhere) == PAYLOAD and elsewhere.name == "file"


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "file"
    monkeypatch.setattr(cache.os, "fsync", full)
    assert cached(path, lambda: PAYLOAD) == PAYLOAD
    assert os.listdir(tmp_path) == []


def _make_slowly(path: str, begun: str) -> None:
    def make() -> bytes:
        Path(begun).touch()
        return PAYLOAD * 2000

    while True:
        cached(Path(path), make)
        Path(path).unlink(missing_ok=True)


@pytest.mark.slow
def test_a_killed_build_leaves_nothing_that_is_used(tmp_path: Path) -> None:
    path, begun = tmp_path / "cache" / "file", tmp_path / "begun"
    for _ in range(4):
        process = multiprocessing.get_context("spawn").Process(target=_make_slowly, args=(str(path), str(begun)))
        process.start()
        while not begun.exists():
            time.sleep(0.005)
        time.sleep(0.01)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        begun.unlink()
        assert read_checked(path) in (None, PAYLOAD * 2000)
        assert not path.exists() or read_checked(path) is not None  # under its name it is whole or not there
    cached(path, lambda: PAYLOAD * 2000)
    assert os.listdir(path.parent) == ["file"]  # what the killed ones left is gone


def _make_once(path: str, barrier: object, results: object) -> None:
    barrier.wait()  # type: ignore[attr-defined]
    results.put(cached(Path(path), lambda: PAYLOAD * 100) == PAYLOAD * 100)  # type: ignore[attr-defined]


def test_two_processes_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(2), context.Queue()
    workers = [context.Process(target=_make_once, args=(str(tmp_path / "file"), barrier, results)) for _ in range(2)]
    for worker in workers:
        worker.start()
    assert [results.get(timeout=30) for _ in workers] == [True, True]
    for worker in workers:
        worker.join()
    assert read_checked(tmp_path / "file") == PAYLOAD * 100 and os.listdir(tmp_path) == ["file"]


def test_keys_and_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    assert key_of("ab", "c") != key_of("a", "bc") and key_of("a", b"b") == key_of("a", "b")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/asmgen")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_folder() == Path("/home/me/.cache/asmgen")
