"""HIP calls about streams and events. What is put on a stream has run when the call returns, unless the stream is capturing."""

from __future__ import annotations

import ctypes
import time

from asmgen.launch.hipemulator.errors import HipError
from asmgen.launch.hipemulator.hipstate import LEGACY_STREAMS, PER_THREAD_STREAM, Event, Runtime, RuntimeStream, put, put_int, put_size

_STREAM_FLAGS = (0, 1)  # default, non-blocking
_EVENT_FLAGS = 0x1 | 0x2 | 0x4 | 0x20000000 | 0x40000000 | 0x80000000  # blocking sync, no timing, interprocess, fences
_NO_TIMING = 0x2
_HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_STREAM_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)


def hipStreamCreate(runtime: Runtime, stream: int) -> None:
    hipStreamCreateWithPriority(runtime, stream, 0, 0)


def hipStreamCreateWithFlags(runtime: Runtime, stream: int, flags: int) -> None:
    hipStreamCreateWithPriority(runtime, stream, flags, 0)


def hipStreamCreateWithPriority(runtime: Runtime, stream: int, flags: int, priority: int) -> None:
    if flags not in _STREAM_FLAGS or not stream:
        raise HipError("hipErrorInvalidValue")
    put_size(stream, runtime.keep(RuntimeStream(runtime.gpu().index, flags, max(-1, min(1, priority)))))


def hipStreamDestroy(runtime: Runtime, stream: int) -> None:
    gone = runtime.drop(stream, RuntimeStream)
    if gone.capture is not None and gone.capture.origin == stream:
        runtime.captures.remove(gone.capture)


def hipStreamSynchronize(runtime: Runtime, stream: int) -> None:
    found = runtime.stream(stream)
    if found.capture is not None or (runtime.captures and stream in LEGACY_STREAMS):
        runtime.invalidate("hipErrorStreamCaptureUnsupported")
    runtime.check_fault(runtime.gpus[found.gpu])


hipStreamQuery = hipStreamSynchronize


def hipStreamWaitEvent(runtime: Runtime, stream: int, event: int, flags: int) -> None:
    found, awaited = runtime.stream(stream), runtime.find(event, Event)
    if awaited.capture is None:
        return
    if awaited.capture not in runtime.captures:
        raise HipError("hipErrorCapturedEvent")
    if stream in (*LEGACY_STREAMS, PER_THREAD_STREAM) or found.capture not in (None, awaited.capture):
        runtime.invalidate("hipErrorStreamCaptureMerge")
    found.capture = awaited.capture  # the stream joins the capture, whose operations are in the order of the calls


def hipStreamGetFlags(runtime: Runtime, stream: int, flags: int) -> None:
    put_int(flags, runtime.stream(stream).flags)


def hipStreamGetPriority(runtime: Runtime, stream: int, priority: int) -> None:
    put_int(priority, runtime.stream(stream).priority)


def hipStreamGetDevice(runtime: Runtime, stream: int, device: int) -> None:
    put_int(device, runtime.stream(stream).gpu)


def hipStreamAddCallback(runtime: Runtime, stream: int, function: int, data: int, flags: int) -> None:
    if not function or flags:
        raise HipError("hipErrorInvalidValue")
    runtime.enqueue(stream, lambda: _STREAM_CALLBACK(function)(stream, 0, data))


def hipLaunchHostFunc(runtime: Runtime, stream: int, function: int, data: int) -> None:
    if not function:
        raise HipError("hipErrorInvalidValue")
    runtime.enqueue(stream, lambda: _HOST_FUNCTION(function)(data))


def hipEventCreate(runtime: Runtime, event: int) -> None:
    hipEventCreateWithFlags(runtime, event, 0)


def hipEventCreateWithFlags(runtime: Runtime, event: int, flags: int) -> None:
    if flags & 0xFFFFFFFF & ~_EVENT_FLAGS or not event:
        raise HipError("hipErrorInvalidValue")
    runtime.gpu()
    put_size(event, runtime.keep(Event(flags)))


def hipEventDestroy(runtime: Runtime, event: int) -> None:
    runtime.drop(event, Event)


def hipEventRecord(runtime: Runtime, event: int, stream: int) -> None:
    recorded, found = runtime.find(event, Event), runtime.stream(stream)
    recorded.capture = found.capture
    if found.capture is None:
        runtime.check_fault(runtime.gpus[found.gpu])
        recorded.time = time.perf_counter()


def hipEventRecordWithFlags(runtime: Runtime, event: int, stream: int, flags: int) -> None:
    hipEventRecord(runtime, event, stream)


def hipEventSynchronize(runtime: Runtime, event: int) -> None:
    if runtime.find(event, Event).capture is not None:
        runtime.invalidate("hipErrorCapturedEvent")
    runtime.check_fault()


hipEventQuery = hipEventSynchronize


def hipEventElapsedTime(runtime: Runtime, milliseconds: int, start: int, stop: int) -> None:
    first, last = runtime.find(start, Event), runtime.find(stop, Event)
    if not milliseconds:
        raise HipError("hipErrorInvalidValue")
    if first.time is None or last.time is None or (first.flags | last.flags) & _NO_TIMING:
        raise HipError("hipErrorInvalidHandle")
    runtime.say("the time between events is the emulator's own and says nothing of a GPU", once=True)
    put(milliseconds, ctypes.c_float((last.time - first.time) * 1e3))
