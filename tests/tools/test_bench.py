"""`asmgen bench`: the protocol on a stand-in that has a clock, and the refusals. No machine that tests this has a GPU."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from asmgen.isa.errors import AsmgenError
from asmgen.launch.launchlist import LaunchList, LaunchStep
from asmgen.tools.bench import BenchReport, bench_device, floating_operations, time_launches
from asmgen.tools.bench_torch import torch_times


class Clocked:
    """A device on which every launch takes 2 ms, the first of each set of buffers 50 ms; it records what is put on it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.log: list[Any] = []

    def stream(self) -> Any:
        device = self

        class Stream:
            def __enter__(self) -> Stream:
                return self

            def __exit__(self, *_: object) -> None:
                device.log.append("closed")

            def synchronize(self) -> None:
                device.log.append("synchronized")

        return Stream()

    def event(self) -> Any:
        device = self
        event = SimpleNamespace(time=0.0, close=lambda: None)
        event.record = lambda stream: setattr(event, "time", device.now)
        event.milliseconds_since = lambda other: event.time - other.time
        return event

    def launch(self, kernel: Any, grid: Any, block: Any, values: Any, dynamic_lds: int, stream: Any) -> None:
        self.now += 2.0 if values in self.log else 50.0
        self.log.append(values)


def test_the_protocol() -> None:
    device = Clocked()
    kernel: Any = SimpleNamespace(launch=lambda where, *rest: where.launch(kernel, *rest))
    launches = LaunchList((LaunchStep(kernel, (1, 1, 1), (64, 1, 1), ("n",)),))
    times = time_launches(device, launches, [{"n": number} for number in range(3)], 5, 7)
    assert times == [2.0] * 7  # the warm-ups are not among them
    assert device.log[:12] == [[number % 3] for number in range(12)]  # the sets take turns all the way
    assert device.log[12:] == ["synchronized", "closed"]


def test_the_report() -> None:
    times = [2.0, 1.0, 4.0, 3.0, 2.0]
    report = BenchReport("gemm-bf16", "gfx950", "card", {"m": 1000, "n": 500, "k": 200}, times, 500, 9,
                         floating_operations({"m": 1000, "n": 500, "k": 200}), 4_000_000, {"gpu": "card"})
    row = report.as_json()
    assert (row["milliseconds_median"], row["runs"], row["warm_ups"], row["buffer_sets"]) == (2.0, 5, 500, 9)
    assert row["tflops"] == pytest.approx(2e8 / 2e-3 / 1e12) and row["gbytes_per_second"] == pytest.approx(2.0)
    assert row["milliseconds_p10"] == pytest.approx(1.4) and row["milliseconds_p90"] == pytest.approx(3.6)
    assert "measured 2.0000 ms" in report.text() and floating_operations({"rows": 3}) is None


def test_the_prediction_and_others_stand_beside_the_measurement() -> None:
    report = BenchReport("gemm-bf16", "gfx950", "card", {}, [2.0, 2.0, 2.0], 500, 9, 10**9, 10, {}, 1.6, {"torch": [3.0, 5.0, 4.0]})
    assert report.as_json()["milliseconds_predicted"] == 1.6 and report.as_json()["against"] == {"torch": 4.0}
    assert "predicted by the cycle model: 1.6000 ms, measured +25.0% off it" in report.text()
    assert "torch: measured 4.0000 ms, 2.00 times as long" in report.text()


def torch_stand_in(hip: str | None) -> Any:
    """PyTorch as far as it is asked: each product takes 3 ms, the first of each pair 40 ms."""
    state = SimpleNamespace(now=0.0, seen=[])

    def linear(a: Any, b: Any) -> None:
        state.now += 3.0 if (a, b) in state.seen else 40.0
        state.seen.append((a, b))

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            self.at = 0.0

        def record(self) -> None:
            self.at = state.now

        def elapsed_time(self, other: Any) -> float:
            return float(other.at - self.at)

    def randn(rows: int, columns: int, device: str) -> Any:
        number = state.now, len(state.seen), rows, columns, object()
        return SimpleNamespace(to=lambda dtype: (number, dtype))

    return SimpleNamespace(version=SimpleNamespace(hip=hip), __version__="2.0", bfloat16="bf16", float16="f16", randn=randn,
                           nn=SimpleNamespace(functional=SimpleNamespace(linear=linear)), state=state,
                           cuda=SimpleNamespace(is_available=lambda: hip is not None, Event=Event, synchronize=lambda: None))


def test_against_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for PyTorch with ROCm, which no machine here has."""
    torch = torch_stand_in("6.4")
    monkeypatch.setitem(sys.modules, "torch", torch)
    times = torch_times("gemm-bf16", {"m": 4, "n": 5, "k": 6, "dtype": "f16"}, 3, 6, 5)
    assert times == [3.0] * 5 and len(torch.state.seen) == 11
    assert {(a[0][2:4], b[0][2:4], a[1]) for a, b in torch.state.seen} == {((4, 6), (5, 6), "f16")}
    monkeypatch.setitem(sys.modules, "torch", torch_stand_in(None))
    with pytest.raises(AsmgenError, match="built for ROCm with a GPU; torch 2.0 here is not that"):
        torch_times("gemm-bf16", {"m": 4, "n": 5, "k": 6}, 3, 6, 5)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(AsmgenError, match="no torch is installed"):
        torch_times("gemm-bf16", {"m": 4, "n": 5, "k": 6}, 3, 6, 5)
    with pytest.raises(AsmgenError, match="no one function for 02-row-sum"):
        torch_times("02-row-sum", {"rows": 4}, 3, 6, 5)


@pytest.mark.parametrize("kind", ["emulator", "auto"])
def test_no_time_comes_from_the_emulator(kind: str) -> None:
    with pytest.raises(AsmgenError, match="how fast|hip would work"):
        bench_device(kind, "gfx950")


def test_who_asks_for_times_is_not_sent_to_the_emulator() -> None:
    with pytest.raises(AsmgenError, match="bench needs a GPU") as refused:
        bench_device("hip", "gfx950")
    assert "--device emulator" not in refused.value.sentence
