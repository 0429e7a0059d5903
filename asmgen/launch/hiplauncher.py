"""A kernel of a code object on a GPU, ready to be launched again and again: function, argument segment and HIP's `extra` made once."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from asmgen.codeobject.load import Kernel, Size
from asmgen.launch.device import DeviceError, check_launch
from asmgen.launch.external import torch_stream
from asmgen.launch.hip import launch_extra
from asmgen.launch.hipstreams import stream_handle
from asmgen.launch.packing import upload_arguments
from asmgen.launch.prepared import Arguments

if TYPE_CHECKING:
    from asmgen.launch.hip import HipDevice


class HipLauncher:
    """Launches one kernel on one GPU."""

    def __init__(self, device: HipDevice, kernel: Kernel) -> None:
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
        self._extra_address = ctypes.addressof(self._extra) if segment else None
        self._shape: tuple[Size, Size, int] | None = None
        self._launch = device.binding.hipModuleLaunchKernel

    def forget(self) -> None:
        """A buffer was freed: look at every argument again."""
        self._arguments.forget()

    def __call__(self, grid: Size, block: Size, values: Any, dynamic_lds: int, stream: Any) -> None:
        """Start it. The segment is one for all threads, so that it is filled and handed over under a lock."""
        given = values.values() if hasattr(values, "values") else values
        for value in given:
            if value.__class__ is np.ndarray:
                self._with_arrays(grid, block, values, dynamic_lds, stream)
                return
        arguments = self._arguments
        with arguments.lock:
            shape = (grid, block, dynamic_lds)
            if shape != self._shape:
                check_launch(self._facts, self._device.arch, grid, block, bytes(arguments.segment), dynamic_lds)
                arguments.fill_hidden(grid, block, dynamic_lds)
                self._shape = shape
            arguments.pack(values)
            if stream is None and arguments.is_torch:
                stream = torch_stream(self._device.gpu.index)
            device = self._device
            if len(device.gpus) > 1:
                device.choose()
            if stream is not None:
                stream = stream_handle(stream)
            try:
                code = self._launch(self.kernel.function, *grid, *block, dynamic_lds, stream, None, self._extra_address)[0]
            except Exception as error:
                raise DeviceError(f"hipModuleLaunchKernel({self._shown(shape)}) failed: {type(error).__name__}: {error}") from error
        if code != 0:
            device.fail("hipModuleLaunchKernel", self._shown(shape), code)

    def _shown(self, shape: tuple[Size, Size, int]) -> str:
        return f"{self.name}, grid {shape[0]}, block {shape[1]}, {shape[2]} bytes of dynamic LDS"

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
