"""HIP calls about errors. The last error is each thread's own."""

from __future__ import annotations

from asmgen.launch.hipemulator.errors import c_string, error_name, error_text
from asmgen.launch.hipemulator.hipstate import Runtime, put_size


def hipGetLastError(runtime: Runtime) -> int:
    code, runtime.thread.last = runtime.thread.last, 0
    return code


hipExtGetLastError = hipGetLastError


def hipPeekAtLastError(runtime: Runtime) -> int:
    return runtime.thread.last


def hipGetErrorName(runtime: Runtime, code: int) -> int:
    return c_string(error_name(code))


def hipGetErrorString(runtime: Runtime, code: int) -> int:
    return c_string(error_text(code))


def hipDrvGetErrorName(runtime: Runtime, code: int, text: int) -> None:
    put_size(text, c_string(error_name(code)))


def hipDrvGetErrorString(runtime: Runtime, code: int, text: int) -> None:
    put_size(text, c_string(error_text(code)))
