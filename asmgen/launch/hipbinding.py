"""hip-python in each of its versions: the only place that knows where they differ in what asmgen calls.

The signatures of 6.2.0, 6.4.4, 7.0.2, 7.2.2 and 10.0.0 were compared (their hip.pyx): every HIP call that asmgen makes takes and returns
the same in all of them, but for these.

| | up to 7.2 | 10.0 |
|---|---|---|
| `hipGetDeviceProperties` | `(prop, device)` fills the caller's, returns `(error,)` | `(device)` returns `(error, prop)` |
| texts in hipDeviceProp_t | bytes | str |
| modules | `hip.hip`, `hip._hip_helpers`, `hip._util.types` | `rocm.bindings.hip`, `._hip_helpers`, `.util.types` |
| `kernelParams` of a launch | an address, or None | a list of addresses too |

`kernelParams` is always None in asmgen, whose arguments go through `extra`. hip-python is imported when a device is asked for, never
before; it imports without ROCm and fails at the first call (RuntimeError: libamdhip64.so cannot be opened).
"""

from __future__ import annotations

import inspect
from importlib import import_module, metadata
from typing import Any, NamedTuple

from asmgen.launch.device import DeviceError

INSTALL = "pip install hip-python brings it"
_TYPES = ("util.types", "_util.types")  # of the package that the binding is in: 10.0, up to 7.2


class Ready(NamedTuple):
    """What a launch hands over at each call: the default stream, no kernelParams, and `extra`."""

    stream: Any
    parameters: Any
    extra: Any


def import_binding(otherwise: str) -> Any:
    """The module hip.hip of hip-python. Raises DeviceError, which ends with `otherwise`, where it is not there or does not load."""
    try:
        from hip import hip
    except ImportError as error:
        raise DeviceError(f"hip-python is not installed ({error}); {INSTALL}; {otherwise}") from error
    except Exception as error:  # a binding that does not find its libraries fails with whatever its loader raises
        raise DeviceError(f"hip-python cannot be imported ({error}); {INSTALL}; {otherwise}") from error
    return hip


def version() -> str:
    """The version of the hip-python that is imported: its package says it, else the installation; "" where neither does."""
    try:
        package = import_module("hip")
    except Exception:  # as `import_binding` says
        package = None
    told = getattr(package, "__version__", None) or getattr(package, "VERSION", None)
    if told is not None:
        return str(told)
    try:
        return metadata.version("hip-python")
    except metadata.PackageNotFoundError:
        return ""


def device_properties(binding: Any, index: int) -> tuple[Any, ...]:
    """HIP's error code and the hipDeviceProp_t of a GPU."""
    call = binding.hipGetDeviceProperties
    if "prop" not in inspect.signature(call).parameters:
        return tuple(call(index))
    properties = binding.hipDeviceProp_t()
    return *call(properties, index), properties


def text(value: Any) -> str:
    """A text of hipDeviceProp_t."""
    return value.split(b"\0")[0].decode(errors="replace") if isinstance(value, bytes) else str(value)


def ready(binding: Any, extra: int | None) -> Ready:
    """The arguments of a launch as hip-python's own objects: it makes these of anything else at each call (5 us)."""
    package = str(getattr(binding, "__name__", "")).rpartition(".")[0]
    for types in _TYPES if package else ():
        try:
            made, helpers = import_module(f"{package}.{types}"), import_module(f"{package}._hip_helpers")
            return Ready(binding.ihipStream_t.fromObj(None), made.ListOfPointer(None), helpers.HipModuleLaunchKernel_extra(extra))
        except (ImportError, AttributeError):
            continue
    return Ready(None, None, extra)  # slower, and right
