"""When Python's collector of cycles is paused, and what becomes of what was made meanwhile."""

from __future__ import annotations

import gc

import pytest

from asmgen import garbage


class Collector:
    """What Python's collector is asked for; `frozen` objects are so by the process itself."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, frozen: int) -> None:
        self.asked: list[str] = []
        self.frozen = frozen
        monkeypatch.setattr(garbage, "_found_frozen", [])
        monkeypatch.setattr(gc, "get_freeze_count", self.count)
        for name in ("freeze", "unfreeze"):
            monkeypatch.setattr(gc, name, lambda name=name: self.asked.append(name))

    def count(self) -> int:
        self.asked.append("count")
        return self.frozen


def test_what_is_made_counts_as_old(monkeypatch: pytest.MonkeyPatch) -> None:
    collector = Collector(monkeypatch, frozen=0)
    for _ in range(2):
        with garbage.collection_paused(keep=True):
            assert not gc.isenabled()
        assert gc.isenabled()
    assert collector.asked == ["count", "freeze", "unfreeze"] * 2


def test_what_the_process_has_frozen_stays_so_and_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    collector = Collector(monkeypatch, frozen=3_000_000)
    for _ in range(3):
        with garbage.collection_paused(keep=True):
            pass
    assert collector.asked == ["count"]


def test_nothing_is_asked_where_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    collector = Collector(monkeypatch, frozen=0)
    gc.disable()
    try:
        with garbage.collection_paused():
            pass
        assert not gc.isenabled() and not collector.asked
    finally:
        gc.enable()
