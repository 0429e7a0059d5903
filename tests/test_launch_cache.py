"""The cache of built files: nothing damaged is used, nothing half written appears, and no cache at all costs only time."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from asmgen.launch import cache
from asmgen.launch.cache import TRAILER_BYTES, cache_folder, cached, cached_file, key_of, read_checked, write_checked

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
