"""Connects the C library to the emulator: loaded by forward.c on the first HIP call of a process (see there)."""

from __future__ import annotations

import _thread
import ctypes
from collections.abc import Callable
from types import ModuleType
from typing import Any

from asmgen.interrupts import Interrupted
from asmgen.isa.errors import AsmgenError
from asmgen.launch.device import DeviceError
from asmgen.launch.hipemulator import copies, devices, errorcalls, graphs, hipmemory, modules, streams
from asmgen.launch.hipemulator.errors import HipError
from asmgen.launch.hipemulator.hipcalls import CALLS, Call
from asmgen.launch.hipemulator.hipstate import Runtime
from asmgen.launch.hipemulator.library import RUNTIME

_GROUPS: dict[str, ModuleType] = {"devices": devices, "errors": errorcalls, "memory": hipmemory, "copies": copies, "modules": modules,
                                  "streams": streams, "graphs": graphs}
_SILENT = frozenset(call.name for call in CALLS if call.group == "errors")  # they neither set nor clear the last error by failing
DISPATCH = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int, ctypes.POINTER(ctypes.c_int64))
_kept: list[Any] = []  # the callback that the C library holds


def handler(call: Call) -> Callable[..., Any]:
    """The function that does a call: of the same name, in the module of its group; it takes the runtime and the call's arguments."""
    found: Callable[..., Any] = getattr(_GROUPS[call.group], call.name)
    return found


def dispatcher(runtime: Runtime) -> Callable[[int, Any], int]:
    """What the C library calls: a call's number and its arguments, to HIP's error code (or a string's address)."""
    rows = [(call.name, handler(call), len(call.signature)) for call in CALLS]
    unknown = HipError("hipErrorUnknown").code

    def dispatch(number: int, arguments: Any) -> int:
        name, function, count = rows[number]
        try:
            result = function(runtime, *arguments[:count])
            return result if isinstance(result, int) else 0
        except HipError as error:
            if error.sentence:
                runtime.say(f"{name}: {error.sentence}")
            code = error.code
        except MemoryError:
            code = HipError("hipErrorOutOfMemory").code
        except DeviceError as error:
            runtime.say(f"{name}: {error.sentence}")
            code = HipError("hipErrorInvalidValue").code
        except AsmgenError as error:
            runtime.say(f"{name}: {error}")
            code = HipError("hipErrorLaunchFailure").code
        except (KeyboardInterrupt, Interrupted):
            _thread.interrupt_main()  # an exception cannot pass through the C library: it is raised again after the call
            code = unknown
        except BaseException as error:
            runtime.say(f"{name}: internal error, which no program should cause: {type(error).__name__}: {error}")
            code = unknown
        if name not in _SILENT:
            runtime.thread.last = code
        return code

    return dispatch


def register() -> None:
    """Make the runtime that the environment asks for and give it to the library, which this process has open."""
    if _kept:
        return
    callback = DISPATCH(dispatcher(Runtime.from_environment()))
    _kept.append(callback)
    ctypes.CDLL(RUNTIME).asmgen_register(callback)
