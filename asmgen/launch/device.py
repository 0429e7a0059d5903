"""What every device can do, be it a GPU or the emulator: memory, code objects, launches. One protocol, so that callers do not care which.

Addresses are plain integers of the device's 64-bit address space; sizes are bytes; grids count workgroups, blocks count work-items.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from asmgen.isa.arch import ARCHITECTURES
from asmgen.isa.errors import AsmgenError

if TYPE_CHECKING:
    import numpy

    from asmgen.launch.external import External

EMULATED_NAME = "asmgen emulator"
"""How the name of every GPU begins that `asmgen hip-emulator` shows to hip-python: no time that it takes says anything of a GPU."""


class DeviceError(AsmgenError):
    """A device cannot be had, or refused a call: which call with which arguments, why, and what would help."""


class LaunchError(DeviceError):
    """A launch ran, and the emulator has found an error in it: which kernel, the finding, how many more. Its results are worthless."""


@dataclass(frozen=True)
class Buffer:
    """`nbytes` bytes of device memory from `address` on."""

    address: int
    nbytes: int


class ResourceFacts(Protocol):
    """What a device reads of a kernel's resources. Sizes in bytes, the workgroup limit in work-items."""

    @property
    def kernarg_size(self) -> int: ...

    @property
    def max_flat_workgroup_size(self) -> int: ...

    @property
    def lds(self) -> int: ...


class DeviceKernel(Protocol):
    """What a device reads of one kernel of a code object."""

    @property
    def name(self) -> str: ...

    @property
    def resources(self) -> ResourceFacts: ...


class Loadable(Protocol):
    """What a device reads of a code object: the ELF image of one architecture and its kernels."""

    @property
    def arch(self) -> str: ...

    @property
    def data(self) -> bytes: ...

    def kernel(self, name: str | None = None) -> DeviceKernel:
        """The kernel of that name, or of the only kernel; an AsmgenError where there is none."""


class LoadedKernel(Protocol):
    """A kernel that its device can launch."""

    @property
    def name(self) -> str: ...


class LoadedModule(Protocol):
    """A code object on a device."""

    def kernel(self, name: str | None = None) -> LoadedKernel:
        """The kernel of that name, or the only one; an AsmgenError where there is none."""

    def unload(self) -> None:
        """Release it now; `Device.close` does so anyway."""


class Device(Protocol):
    """A device; a context manager that closes itself. Every method raises DeviceError where it cannot do what was asked."""

    @property
    def name(self) -> str:
        """For people: "AMD Instinct MI300X" or "emulator"."""

    @property
    def arch(self) -> str:
        """The architecture whose code objects it runs, "gfx950"."""

    def allocate(self, nbytes: int) -> Buffer:
        """Memory with undefined contents; 0 bytes are legal."""

    def upload(self, array: numpy.ndarray[Any, Any]) -> Buffer:
        """A new buffer with the array's bytes in C order."""

    def write(self, buffer: Buffer, array: numpy.ndarray[Any, Any], offset: int = 0) -> None:
        """Copies the array's bytes in C order into the buffer from byte `offset` on."""

    def read(self, buffer: Buffer, dtype: Any, shape: int | Sequence[int], offset: int = 0) -> numpy.ndarray[Any, Any]:
        """A copy of the buffer from byte `offset` on, as a C-ordered array, after every launch before it has finished."""

    def free(self, buffer: Buffer) -> None:
        """Gives the memory back; the buffer must not be used again."""

    def load(self, code_object: Loadable) -> LoadedModule:
        """Puts the code object on the device; DeviceError where it is for another architecture."""

    def stream(self) -> Any:
        """A new stream, a context manager that waits for what was put on it."""

    def read_async(self, array: numpy.ndarray[Any, Any], buffer: Buffer, stream: Any = None, offset: int = 0) -> None:
        """Fills the array from byte `offset` of the buffer on, in the stream's order; it holds the data when the stream has finished."""

    def stream_of(self, values: Iterable[Any], stream: Any) -> Any:
        """The stream on which launches with these arguments go that shall follow each other: the given one, or the one that a launch
        would take by itself."""

    def workspace(self, name: str, nbytes: int, stream: Any) -> AbstractContextManager[Buffer]:
        """Memory with undefined contents for the launches that are put on the stream within."""

    def zero(self, address: int, nbytes: int, stream: Any) -> None:
        """Sets device memory to zero, in the stream's order."""

    def borrow(self, what: str, array: External) -> bool:
        """Lets kernels use an array that somebody else owns, until it is given back. Whether there is anything to give back.

        Raises DeviceError, which begins with `what`, where the array lies elsewhere.
        """

    def check_held(self, what: str, buffer: Buffer) -> None:
        """Raises DeviceError, which begins with `what`, for a buffer that this device does not hold."""

    def give_back(self, array: External) -> None:
        """Ends what `borrow` began."""

    def launch(
        self, kernel: Any, grid: tuple[int, int, int], block: tuple[int, int, int], kernarg: Any, dynamic_lds: int = 0,
        stream: Any = None,
    ) -> object:
        """Starts `grid` workgroups of `block` work-items, with `dynamic_lds` bytes after the static LDS.

        `kernarg` is the kernarg segment's bytes, or the arguments in order or by name where `kernel` is `code_object.kernel(name)`.
        """

    def synchronize(self) -> None:
        """Waits until every launch has finished; a fault of one of them is raised here."""

    def close(self) -> None:
        """Frees all that is still held. Closing twice is legal."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


def check_span(what: str, buffer: Buffer, offset: int, nbytes: int) -> None:
    """DeviceError unless bytes `offset` to `offset + nbytes` lie in the buffer; `what` is "read" or "write"."""
    if offset < 0 or offset + nbytes > buffer.nbytes:
        raise DeviceError(f"a {what} of {nbytes} bytes at offset {offset} does not fit a buffer of {buffer.nbytes} bytes")


def check_launch(
    kernel: DeviceKernel, arch: str, grid: tuple[int, int, int], block: tuple[int, int, int], kernarg: bytes, dynamic_lds: int = 0
) -> None:
    """DeviceError for a launch that no device of `arch` accepts: sizes below 1, too many work-items, too much LDS, too few argument bytes.

    The limit of 2^32 work-items per dimension is HIP's (hipModuleLaunchKernel).
    """
    resources = kernel.resources
    if len(grid) != 3 or len(block) != 3:
        raise DeviceError(f"{kernel.name}: grid and block have three dimensions each, got grid {grid} and block {block}")
    if min(grid) < 1 or min(block) < 1:
        raise DeviceError(f"{kernel.name}: every dimension of grid and block must be at least 1, got grid {grid} and block {block}")
    items = block[0] * block[1] * block[2]
    if items > resources.max_flat_workgroup_size:
        raise DeviceError(f"{kernel.name} allows {resources.max_flat_workgroup_size} work-items a workgroup, but block {block} has {items}")
    if any(count * size >= 1 << 32 for count, size in zip(grid, block, strict=True)):
        raise DeviceError(f"{kernel.name}: grid {grid} of blocks {block} has 2^32 work-items or more in one dimension; split the launch")
    if len(kernarg) < resources.kernarg_size:
        raise DeviceError(f"{kernel.name} reads {resources.kernarg_size} bytes of arguments, but {len(kernarg)} were given")
    limit = ARCHITECTURES[arch].lds_bytes if arch in ARCHITECTURES else None
    if dynamic_lds < 0 or (limit is not None and resources.lds + dynamic_lds > limit):
        asked = f"{resources.lds} bytes of static and {dynamic_lds} of dynamic LDS"
        raise DeviceError(f"{kernel.name}: {asked} were asked for; a workgroup of {arch} has 0 to {limit} in all")
