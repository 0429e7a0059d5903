"""A kernel of a code object on a GPU, ready to be launched again and again: function, argument segment and HIP's `extra` made once."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

from asmgen.codeobject.load import KernelRecord, Size
from asmgen.launch.device import DeviceError, check_launch
from asmgen.launch.external import torch_stream
from asmgen.launch.hipbinding import ready
from asmgen.launch.hipstreams import stream_handle
from asmgen.launch.launchcall import HostArray, LaunchingDevice, launch_extra
from asmgen.launch.packing import upload_arguments
from asmgen.launch.prepared import Arguments


class HipLauncher:
    """Launches one kernel on one GPU."""

    def __init__(self, device: LaunchingDevice, kernel: KernelRecord) -> None:
        assert kernel.code_object is not None
        self.name = kernel.name
        self._facts = kernel
        self._device = device
        self._code_object = kernel.code_object  # lives as long as its identity is a key
        self.kernel = device.load(kernel.code_object).kernel(kernel.name)
        self._arguments = Arguments(kernel, device.locate)
        segment = self._arguments.segment
        # Without arguments there is no address to be had of the segment, and none is needed.
        self._address = ctypes.addressof((ctypes.c_char * len(segment)).from_buffer(segment)) if segment else 0
        self._extra, self._size = launch_extra(self._address, len(segment))
        self._given = ready(device.binding, ctypes.addressof(self._extra) if segment else None)
        self._shape: tuple[Size, Size, int] | None = None
        self._launch: Callable[..., Any] = device.binding.hipModuleLaunchKernel

    def forget(self) -> None:
        """A buffer was freed: look at every argument again."""
        self._arguments.forget()

    def __call__(self, grid: Size, block: Size, values: Any, dynamic_lds: int, stream: Any) -> None:
        """Start it. The segment is one for all threads, so that it is filled and handed over under a lock."""
        arguments, device = self._arguments, self._device
        try:
            with arguments.lock:
                if self._shape != (grid, block, dynamic_lds):
                    self._resize(grid, block, dynamic_lds)
                arguments.pack(values)
                if stream is None and arguments.is_torch:
                    stream = torch_stream(device.gpu.index)
                if device.several:
                    device.choose()
                default, parameters, extra = self._given
                code = self._launch(default if stream is None else stream_handle(stream), parameters, extra)[0]
        except HostArray:
            self._with_arrays(grid, block, values, dynamic_lds, stream)
            return
        except (RuntimeError, TypeError, ValueError) as error:  # what hip-python raises where it cannot make the call
            raise DeviceError(f"hipModuleLaunchKernel({self._shown()}) failed: {type(error).__name__}: {error}") from error
        if code:
            device.fail("hipModuleLaunchKernel", self._shown(), code)

    def _resize(self, grid: Size, block: Size, dynamic_lds: int) -> None:
        """Check and remember the sizes of a launch."""
        check_launch(self._facts, self._device.arch, grid, block, bytes(self._arguments.segment), dynamic_lds)
        self._arguments.fill_hidden(grid, block, dynamic_lds)
        self._launch = partial(self._device.binding.hipModuleLaunchKernel, self.kernel.function, *grid, *block, dynamic_lds)
        self._shape = grid, block, dynamic_lds

    def _shown(self) -> str:
        grid, block, dynamic_lds = self._shape or ((), (), 0)
        return f"{self.name}, grid {grid}, block {block}, {dynamic_lds} bytes of dynamic LDS"

    def _with_arrays(self, grid: Size, block: Size, values: Any, dynamic_lds: int, stream: Any) -> None:
        """numpy arrays go to the GPU before the launch and come back after it."""
        device = self._device
        uploaded = upload_arguments(device, self._facts, values, grid, block, dynamic_lds)
        try:
            device.launch(self.kernel, grid, block, uploaded.kernarg, dynamic_lds, stream)
            device.synchronize()
            uploaded.copy_back()
        finally:
            uploaded.free()
