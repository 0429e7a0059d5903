"""HIP calls that copy and set memory. An asynchronous one has run when it returns, or is recorded where its stream is capturing."""

from __future__ import annotations

import ctypes

import numpy as np

from asmgen.emulator.machine.devicememory import PAGE
from asmgen.launch.hipemulator.errors import HipError
from asmgen.launch.hipemulator.hipstate import Runtime, unsigned

HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, DEFAULT, DEVICE_TO_DEVICE_NO_CU = 0, 1, 2, 3, 4, 1024
_KINDS = (HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, DEFAULT, DEVICE_TO_DEVICE_NO_CU)


def _check_span(runtime: Runtime, address: int, size: int, device: bool, what: str) -> None:
    """The bytes must lie in one allocation where they begin in one, and must begin in one where the copy's kind says so."""
    if not address:
        raise HipError("hipErrorInvalidValue", f"the {what} is a null pointer")
    found = runtime.interval(address)
    if found is None and device:
        raise HipError("hipErrorInvalidValue", f"the {what} {address:#x} is no device memory")
    if found is not None and address + size > found.end:
        raise HipError("hipErrorInvalidValue", f"the {what} has {found.end - address} bytes from {address:#x} on, {size} were asked for")


def _check_copy(runtime: Runtime, target: int, source: int, size: int, kind: int) -> None:
    if kind not in _KINDS:
        raise HipError("hipErrorInvalidMemcpyDirection")
    _check_span(runtime, target, size, kind in (HOST_TO_DEVICE, DEVICE_TO_DEVICE, DEVICE_TO_DEVICE_NO_CU), "target")
    _check_span(runtime, source, size, kind in (DEVICE_TO_HOST, DEVICE_TO_DEVICE, DEVICE_TO_DEVICE_NO_CU), "source")


def _move(runtime: Runtime, target: int, source: int, size: int) -> None:
    into = runtime.interval(target)
    if into is None:
        _note_undefined(runtime, source, size)
    ctypes.memmove(target, source, size)
    if into is not None:
        runtime.memory.written(target, size)


def _note_undefined(runtime: Runtime, source: int, size: int) -> None:
    """Say it where the host reads what no kernel and nobody else wrote."""
    found = runtime.interval(source)
    shadow = runtime.memory.shadow
    if found is None or shadow is None:
        return
    bits = shadow.bits.get(found.start)
    if bits is not None and bits[source - found.start : source - found.start + size].any():
        first = int(np.nonzero(bits[source - found.start : source - found.start + size])[0][0])
        runtime.say(f"the program reads byte {source - found.start + first} of {found.name}, into which a kernel stored what nobody wrote")


def _copy(runtime: Runtime, target: int, source: int, size: int, kind: int, stream: int | None = None) -> None:
    size = unsigned(size)
    if not size:
        return
    _check_copy(runtime, target, source, size, kind)
    if stream is None:
        runtime.not_while_capturing()
    runtime.enqueue(stream or 0, lambda: _move(runtime, target, source, size))


def hipMemcpy(runtime: Runtime, target: int, source: int, size: int, kind: int) -> None:
    _copy(runtime, target, source, size, kind)


def hipMemcpyAsync(runtime: Runtime, target: int, source: int, size: int, kind: int, stream: int) -> None:
    _copy(runtime, target, source, size, kind, stream)


def hipMemcpyWithStream(runtime: Runtime, target: int, source: int, size: int, kind: int, stream: int) -> None:
    _copy(runtime, target, source, size, kind, stream)


def hipMemcpyHtoD(runtime: Runtime, target: int, source: int, size: int) -> None:
    _copy(runtime, target, source, size, HOST_TO_DEVICE)


def hipMemcpyDtoH(runtime: Runtime, target: int, source: int, size: int) -> None:
    _copy(runtime, target, source, size, DEVICE_TO_HOST)


def hipMemcpyDtoD(runtime: Runtime, target: int, source: int, size: int) -> None:
    _copy(runtime, target, source, size, DEVICE_TO_DEVICE)


def hipMemcpyHtoDAsync(runtime: Runtime, target: int, source: int, size: int, stream: int) -> None:
    _copy(runtime, target, source, size, HOST_TO_DEVICE, stream)


def hipMemcpyDtoHAsync(runtime: Runtime, target: int, source: int, size: int, stream: int) -> None:
    _copy(runtime, target, source, size, DEVICE_TO_HOST, stream)


def hipMemcpyDtoDAsync(runtime: Runtime, target: int, source: int, size: int, stream: int) -> None:
    _copy(runtime, target, source, size, DEVICE_TO_DEVICE, stream)


def hipMemcpyPeer(runtime: Runtime, target: int, target_gpu: int, source: int, source_gpu: int, size: int) -> None:
    runtime.gpu(target_gpu)
    runtime.gpu(source_gpu)
    _copy(runtime, target, source, size, DEVICE_TO_DEVICE)


def hipMemcpyPeerAsync(runtime: Runtime, target: int, target_gpu: int, source: int, source_gpu: int, size: int, stream: int) -> None:
    runtime.gpu(target_gpu)
    runtime.gpu(source_gpu)
    _copy(runtime, target, source, size, DEVICE_TO_DEVICE, stream)


def _copy_rows(runtime: Runtime, target: int, target_pitch: int, source: int, source_pitch: int, width: int, height: int, kind: int,
               stream: int | None = None) -> None:
    target_pitch, source_pitch, width, height = (unsigned(value) for value in (target_pitch, source_pitch, width, height))
    if not width or not height:
        return
    if width > target_pitch or width > source_pitch:
        raise HipError("hipErrorInvalidPitchValue")
    if kind not in _KINDS:
        raise HipError("hipErrorInvalidMemcpyDirection")
    _check_span(runtime, target, target_pitch * (height - 1) + width, kind in (HOST_TO_DEVICE, DEVICE_TO_DEVICE), "target")
    _check_span(runtime, source, source_pitch * (height - 1) + width, kind in (DEVICE_TO_HOST, DEVICE_TO_DEVICE), "source")

    def operation() -> None:
        for row in range(height):
            _move(runtime, target + row * target_pitch, source + row * source_pitch, width)

    if stream is None:
        runtime.not_while_capturing()
    runtime.enqueue(stream or 0, operation)


def hipMemcpy2D(runtime: Runtime, target: int, target_pitch: int, source: int, source_pitch: int, width: int, height: int,
                kind: int) -> None:
    _copy_rows(runtime, target, target_pitch, source, source_pitch, width, height, kind)


def hipMemcpy2DAsync(runtime: Runtime, target: int, target_pitch: int, source: int, source_pitch: int, width: int, height: int, kind: int,
                     stream: int) -> None:
    _copy_rows(runtime, target, target_pitch, source, source_pitch, width, height, kind, stream)


def _set(runtime: Runtime, target: int, value: int, bytes_each: int, count: int, stream: int, height: int = 1, pitch: int = 0) -> None:
    """`height` rows of `count` items."""
    width = unsigned(count) * bytes_each
    if not width or not height:
        return
    if height > 1 and pitch < width:
        raise HipError("hipErrorInvalidPitchValue")
    if target % bytes_each:
        raise HipError("hipErrorInvalidValue")
    _check_span(runtime, target, pitch * (height - 1) + width, True, "target")
    data = np.frombuffer((value & (1 << 8 * bytes_each) - 1).to_bytes(bytes_each, "little"), f"<u{bytes_each}")[0]

    def operation() -> None:
        for row in range(height):
            start = target + row * pitch
            if not runtime.memory.covers(start, width):
                raise HipError("hipErrorInvalidValue")
            runtime.memory.u8[start - PAGE : start - PAGE + width].view(f"<u{bytes_each}")[:] = data
            runtime.memory.written(start, width)

    runtime.enqueue(stream, operation)


def hipMemset(runtime: Runtime, target: int, value: int, size: int) -> None:
    runtime.not_while_capturing()
    _set(runtime, target, value, 1, size, 0)


def hipMemsetAsync(runtime: Runtime, target: int, value: int, size: int, stream: int) -> None:
    _set(runtime, target, value, 1, size, stream)


def hipMemsetD8(runtime: Runtime, target: int, value: int, count: int) -> None:
    runtime.not_while_capturing()
    _set(runtime, target, value, 1, count, 0)


def hipMemsetD8Async(runtime: Runtime, target: int, value: int, count: int, stream: int) -> None:
    _set(runtime, target, value, 1, count, stream)


def hipMemsetD16(runtime: Runtime, target: int, value: int, count: int) -> None:
    runtime.not_while_capturing()
    _set(runtime, target, value, 2, count, 0)


def hipMemsetD16Async(runtime: Runtime, target: int, value: int, count: int, stream: int) -> None:
    _set(runtime, target, value, 2, count, stream)


def hipMemsetD32(runtime: Runtime, target: int, value: int, count: int) -> None:
    runtime.not_while_capturing()
    _set(runtime, target, value, 4, count, 0)


def hipMemsetD32Async(runtime: Runtime, target: int, value: int, count: int, stream: int) -> None:
    _set(runtime, target, value, 4, count, stream)


def hipMemset2D(runtime: Runtime, target: int, pitch: int, value: int, width: int, height: int) -> None:
    runtime.not_while_capturing()
    _set(runtime, target, value, 1, width, 0, unsigned(height), unsigned(pitch))


def hipMemset2DAsync(runtime: Runtime, target: int, pitch: int, value: int, width: int, height: int, stream: int) -> None:
    _set(runtime, target, value, 1, width, stream, unsigned(height), unsigned(pitch))
