"""Streams and events of a GPU. Both give back what HIP holds for them when they are closed, or with their device."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from asmgen.launch.device import DeviceError

Caller = Callable[..., Any]
"""Makes a HIP call: the function's name, its arguments, and how an error shows them."""


class HipStream:
    """A stream: what is put on it runs in order, beside other streams and the host. `handle` is HIP's."""

    def __init__(self, call: Caller, forget: Callable[[object], None]) -> None:
        self._call = call
        self._forget = forget
        self._kept: list[Any] = []  # host arrays of copies under way
        self.handle: Any = call("hipStreamCreate")
        self.open = True

    def keep(self, array: Any) -> None:
        """Hold an array until the stream has been waited for."""
        self._kept.append(array)

    def synchronize(self) -> None:
        """Waits until all that was put on it has finished; a fault of a kernel is raised here."""
        self._check_open()
        self._call("hipStreamSynchronize", self.handle, shown="stream")
        self._kept.clear()

    def close(self) -> None:
        """Waits for it and gives it back. Closing twice is legal."""
        if self.open:
            self.open = False
            self._forget(self)
            self._call("hipStreamDestroy", self.handle, shown="stream")
            self._kept.clear()

    def _check_open(self) -> None:
        if not self.open:
            raise DeviceError("the stream has been closed")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            self.synchronize()
        self.close()


class HipEvent:
    """A moment on a stream."""

    def __init__(self, call: Caller, forget: Callable[[object], None]) -> None:
        self._call = call
        self._forget = forget
        self.handle: Any = call("hipEventCreate")
        self.open = True

    def record(self, stream: Any = None) -> None:
        """It happens when all that was put on the stream before has finished."""
        self._call("hipEventRecord", self.handle, stream_handle(stream), shown="event, stream")

    def synchronize(self) -> None:
        """Waits for it."""
        self._call("hipEventSynchronize", self.handle, shown="event")

    def milliseconds_since(self, start: HipEvent) -> float:
        """The time between two events that have happened."""
        return float(self._call("hipEventElapsedTime", start.handle, self.handle, shown="start, stop"))

    def close(self) -> None:
        """Gives it back. Closing twice is legal."""
        if self.open:
            self.open = False
            self._forget(self)
            self._call("hipEventDestroy", self.handle, shown="event")


def stream_handle(stream: Any) -> Any:
    """What HIP calls a stream: None is the default one, a HipStream and PyTorch's have a handle, all else is a handle itself."""
    if stream is None or isinstance(stream, int):
        return stream or None
    if isinstance(stream, HipStream):
        if not stream.open:
            raise DeviceError("the stream has been closed")
        return stream.handle
    return getattr(stream, "cuda_stream", stream) or None
