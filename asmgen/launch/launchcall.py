"""What HIP's device and its prepared launches share: the GPU, the `extra` array, and what stands for an array to upload first."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Protocol

from asmgen.launch.device import Device, Loadable

# hip_runtime_api.h: the `extra` array of hipModuleLaunchKernel is {POINTER, kernarg, SIZE, &size, END}.
LAUNCH_PARAM_BUFFER_POINTER = 1
LAUNCH_PARAM_BUFFER_SIZE = 2
LAUNCH_PARAM_END = 3


@dataclass(frozen=True)
class Gpu:
    """One GPU that HIP sees: its index, its name, its architecture without the feature suffix."""

    index: int
    name: str
    arch: str


class HostArray(Exception):
    """A numpy array stands where an address is asked for: it has to be uploaded first."""


class LaunchingDevice(Device, Protocol):
    """What a prepared launch asks of the device that made it (`asmgen.launch.hip.HipDevice`)."""

    binding: Any
    gpu: Gpu
    several: bool

    def choose(self) -> None:
        """Make it the calling thread's GPU."""

    def locate(self, what: str, value: Any) -> tuple[int, bool]:
        """The address of a buffer or of another library's array on this GPU, and whether it is PyTorch's. Raises HostArray, DeviceError."""

    def fail(self, function: str, shown: str, code: Any) -> None:
        """Raise the DeviceError of a call that was made without the device's own."""

    def load(self, *code_objects: Loadable) -> Any:
        """The module of the code object that is for this GPU."""


def launch_extra(address: int, nbytes: int) -> tuple[Any, Any]:
    """The `extra` array of hipModuleLaunchKernel for arguments at an address, and their size, which must live as long as the array."""
    size = ctypes.c_size_t(nbytes)
    return (ctypes.c_void_p * 5)(
        LAUNCH_PARAM_BUFFER_POINTER, address, LAUNCH_PARAM_BUFFER_SIZE, ctypes.addressof(size), LAUNCH_PARAM_END
    ), size
