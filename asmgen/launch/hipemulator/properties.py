"""What an emulated GPU says of itself: hipDeviceProp_t and the device attributes.

Both are filled through hip-python's own classes and enumerations, which the calling program has loaded, so that no layout and no number
of them stands here twice. Sizes are those of a whole MI300X or MI355X; nothing here is a measurement.
"""

from __future__ import annotations

import ctypes
from typing import Any

from asmgen.isa.arch import LANES, MOST_WORK_ITEMS, SIMDS
from asmgen.launch.device import DeviceError
from asmgen.launch.hipbinding import import_binding
from asmgen.launch.hipemulator.errors import HipError
from asmgen.launch.hipemulator.hipstate import TOTAL_BYTES, GpuState, put_text

_MOST_GRID = (1 << 31) - 1
# MI300X and MI355X: compute units, engine clock in kHz (AMD's data sheets). The caches are per GPU (L2 of one XCD), in bytes.
CHIPS = {"gfx942": (304, 2_100_000, 4 << 20), "gfx950": (256, 2_400_000, 4 << 20)}
_PROPERTY_OF_ATTRIBUTE = {  # where the names differ in more than their first letter
    "TotalConstantMemory": "totalConstMem",
    "MaxThreadsPerMultiProcessor": "maxThreadsPerMultiProcessor",
    "MaxRegistersPerBlock": "regsPerBlock",
    "MaxRegistersPerMultiprocessor": "regsPerMultiprocessor",
    "MaxSharedMemoryPerBlock": "sharedMemPerBlock",
    "MaxSharedMemoryPerMultiprocessor": "maxSharedMemoryPerMultiProcessor",
    "ComputeCapabilityMajor": "major",
    "ComputeCapabilityMinor": "minor",
    "MultiprocessorCount": "multiProcessorCount",
    "PciBusId": "pciBusID",
    "PciDeviceId": "pciDeviceID",
    "PciDomainId": "pciDomainID",
    "PciDomainID": "pciDomainID",
    "MaxPitch": "memPitch",
    "EccEnabled": "ECCEnabled",
}


def target(gpu: GpuState) -> str:
    """The target id with features, as gcnArchName has it."""
    return f"{gpu.profile.name}:sramecc+:xnack-"


def numbers(gpu: GpuState) -> dict[str, int]:
    """The properties that are numbers, by hipDeviceProp_t's names; those that are not here are 0."""
    units, clock, cache = CHIPS[gpu.profile.name]
    arch = gpu.profile
    return {
        "totalGlobalMem": TOTAL_BYTES[arch.name], "sharedMemPerBlock": arch.lds_bytes, "sharedMemPerBlockOptin": arch.lds_bytes,
        "sharedMemPerMultiprocessor": arch.lds_bytes * units, "maxSharedMemoryPerMultiProcessor": arch.lds_bytes,
        "regsPerBlock": arch.vgpr_total * LANES * SIMDS, "regsPerMultiprocessor": arch.vgpr_total * LANES * SIMDS,
        "warpSize": LANES, "memPitch": _MOST_GRID, "maxThreadsPerBlock": MOST_WORK_ITEMS, "clockRate": clock, "totalConstMem": _MOST_GRID,
        "major": 9, "minor": {"gfx942": 4, "gfx950": 5}[arch.name], "multiProcessorCount": units, "l2CacheSize": cache,
        "maxThreadsPerMultiProcessor": arch.waves_per_simd * SIMDS * LANES, "maxBlocksPerMultiProcessor": 32,
        "concurrentKernels": 1, "asyncEngineCount": 1, "unifiedAddressing": 1, "managedMemory": 1, "canMapHostMemory": 1,
        "cooperativeLaunch": 1, "streamPrioritiesSupported": 1, "ECCEnabled": 1, "textureAlignment": 256, "texturePitchAlignment": 256,
        "pciBusID": gpu.index + 1, "memoryBusWidth": 8192, "isLargeBar": 1, "hostRegisterSupported": 1, "concurrentManagedAccess": 1,
        "directManagedMemAccessFromHost": 1, "clockInstructionRate": 100_000, "memoryClockRate": 0, "memoryPoolsSupported": 0,
    }  # fmt: skip


def binding() -> Any:
    """hip-python, as the calling program has it. Raises HipError where it has none."""
    try:
        return import_binding("the calling program has to have it")
    except DeviceError as error:
        raise HipError("hipErrorNotSupported", error.sentence) from None


def fill_properties(gpu: GpuState, address: int) -> None:
    """Fill the hipDeviceProp_t at an address."""
    if not address:
        raise HipError("hipErrorInvalidValue")
    properties = binding().hipDeviceProp_t.fromObj(address)
    size = int(properties.c_sizeof())
    ctypes.memset(address, 0, size)
    # hip-python sets numbers only. Its arrays stand beside numbers (hip_runtime_api.h): the name first of all, maxThreadsDim and
    # maxGridSize after maxThreadsPerBlock, gcnArchName before maxSharedMemoryPerMultiProcessor.
    dimensions = _offset(properties, address, size, "maxThreadsPerBlock") + 4
    arch_name = _offset(properties, address, size, "maxSharedMemoryPerMultiProcessor") - 256
    for name, value in numbers(gpu).items():
        if hasattr(properties, name):
            setattr(properties, name, value)
    put_text(address, 256, gpu.name)
    put_text(address + arch_name, 256, target(gpu))
    limits = (ctypes.c_int * 6)(*(MOST_WORK_ITEMS,) * 3, _MOST_GRID, 65536, 65536)
    ctypes.memmove(address + dimensions, limits, ctypes.sizeof(limits))
    arch = properties.arch
    for name in dir(arch):
        if name.startswith("has") and not name.startswith(("hasSurface",)):
            setattr(arch, name, 1)


def _offset(properties: Any, address: int, size: int, name: str) -> int:
    """Where a number stands in the structure, which is all zeros before and after."""
    setattr(properties, name, 0x5A5A5A5A)
    location = ctypes.string_at(address, size).index(b"\x5a\x5a\x5a\x5a")
    setattr(properties, name, 0)
    return location


def attribute(gpu: GpuState, number: int) -> int:
    """The value of a hipDeviceAttribute_t. Raises HipError for one that HIP does not have."""
    names = {int(row): row.name for row in binding().hipDeviceAttribute_t}
    if number not in names:
        raise HipError("hipErrorInvalidValue")
    name = names[number].removeprefix("hipDeviceAttribute")
    limits = {"MaxBlockDimX": MOST_WORK_ITEMS, "MaxBlockDimY": MOST_WORK_ITEMS, "MaxBlockDimZ": MOST_WORK_ITEMS,
              "MaxGridDimX": _MOST_GRID, "MaxGridDimY": 65536, "MaxGridDimZ": 65536,
              "PhysicalMultiProcessorCount": CHIPS[gpu.profile.name][0], "WavefrontSize": 64, "AmdSpecificBegin": 0}
    if name in limits:
        return limits[name]
    found = numbers(gpu)
    plain = _PROPERTY_OF_ATTRIBUTE.get(name, name[:1].lower() + name[1:])
    return min(found.get(plain, 0), _MOST_GRID)
