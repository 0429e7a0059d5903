"""HIP calls that capture streams into graphs and launch these. A graph is its operations in the order in which they were put on streams."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from asmgen.launch.hipemulator.errors import HipError
from asmgen.launch.hipemulator.hipstate import LEGACY_STREAMS, Capture, Operation, Runtime, RuntimeStream, put, put_int, put_size

_MODES = (0, 1, 2)  # global, thread-local, relaxed
_NOT_CAPTURING, _CAPTURING, _INVALIDATED = 0, 1, 2


@dataclass(frozen=True)
class Graph:
    """What was captured."""

    operations: tuple[Operation, ...] = ()


@dataclass(frozen=True)
class Executable:
    """A graph that can be launched; it is not changed by what becomes of the graph."""

    operations: tuple[Operation, ...]


def hipStreamBeginCapture(runtime: Runtime, stream: int, mode: int) -> None:
    found = runtime.stream(stream)
    if mode not in _MODES:
        raise HipError("hipErrorInvalidValue")
    if stream in LEGACY_STREAMS:
        raise HipError("hipErrorStreamCaptureUnsupported")
    if found.capture is not None:
        raise HipError("hipErrorIllegalState")
    found.capture = Capture(stream, len(runtime.captures) + 1)
    runtime.captures.append(found.capture)


def hipStreamEndCapture(runtime: Runtime, stream: int, graph: int) -> None:
    capture = runtime.stream(stream).capture
    if capture is None:
        raise HipError("hipErrorIllegalState")
    if capture.origin != stream:
        raise HipError("hipErrorStreamCaptureUnmatched")
    runtime.captures.remove(capture)
    for other in runtime.things(RuntimeStream):
        if other.capture is capture:
            other.capture = None
    runtime.stream(stream).capture = None
    if capture.invalid:
        put_size(graph, 0)
        raise HipError("hipErrorStreamCaptureInvalidated")
    put_size(graph, runtime.keep(Graph(tuple(capture.operations))))


def _status(capture: Capture | None) -> int:
    return _NOT_CAPTURING if capture is None else _INVALIDATED if capture.invalid else _CAPTURING


def hipStreamIsCapturing(runtime: Runtime, stream: int, status: int) -> None:
    put_int(status, _status(runtime.stream(stream).capture))


def hipStreamGetCaptureInfo(runtime: Runtime, stream: int, status: int, number: int) -> None:
    capture = runtime.stream(stream).capture
    put_int(status, _status(capture))
    if number and capture is not None:
        put_size(number, capture.number)


def hipThreadExchangeStreamCaptureMode(runtime: Runtime, mode: int) -> None:
    put_int(mode, 0)


def hipGraphCreate(runtime: Runtime, graph: int, flags: int) -> None:
    if flags:
        raise HipError("hipErrorInvalidValue")
    put_size(graph, runtime.keep(Graph()))


def hipGraphDestroy(runtime: Runtime, graph: int) -> None:
    runtime.drop(graph, Graph, "hipErrorInvalidValue")


def hipGraphGetNodes(runtime: Runtime, graph: int, nodes: int, count: int) -> None:
    """The number only: the nodes themselves have no handles."""
    if nodes:
        raise HipError("hipErrorNotSupported", "the nodes of a graph cannot be asked for, only their number")
    put_size(count, len(runtime.find(graph, Graph, "hipErrorInvalidValue").operations))


def hipGraphInstantiate(runtime: Runtime, executable: int, graph: int, error_node: int, log: int, log_size: int) -> None:
    hipGraphInstantiateWithFlags(runtime, executable, graph, 0)
    if error_node:
        put_size(error_node, 0)
    if log and log_size > 0:
        put(log, ctypes.c_char(0))


def hipGraphInstantiateWithFlags(runtime: Runtime, executable: int, graph: int, flags: int) -> None:
    put_size(executable, runtime.keep(Executable(runtime.find(graph, Graph, "hipErrorInvalidValue").operations)))


def hipGraphUpload(runtime: Runtime, executable: int, stream: int) -> None:
    runtime.stream(stream)
    runtime.find(executable, Executable, "hipErrorInvalidValue")


def hipGraphLaunch(runtime: Runtime, executable: int, stream: int) -> None:
    found = runtime.find(executable, Executable, "hipErrorInvalidValue")
    for operation in found.operations:
        runtime.enqueue(stream, operation)


def hipGraphExecDestroy(runtime: Runtime, executable: int) -> None:
    runtime.drop(executable, Executable, "hipErrorInvalidValue")
