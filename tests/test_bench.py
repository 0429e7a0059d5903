"""`asmgen bench`: the protocol on a stand-in that has a clock, and the refusals. No machine that tests this has a GPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from asmgen.isa.errors import AsmgenError
from asmgen.tools.bench import BenchReport, bench_device, floating_operations, time_launches


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
    kernel = SimpleNamespace(launch=lambda where, *rest: where.launch(kernel, *rest))
    times = time_launches(device, kernel, (1, 1, 1), (64, 1, 1), [[0], [1], [2]], 5, 7)  # type: ignore[arg-type]
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


@pytest.mark.parametrize("kind", ["emulator", "auto"])
def test_no_time_comes_from_the_emulator(kind: str) -> None:
    with pytest.raises(AsmgenError, match="how fast|hip alone"):
        bench_device(kind, "gfx950")
