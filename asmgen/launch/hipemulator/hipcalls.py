"""The HIP calls that the emulator's runtime library has: the one table from which the C library, the dispatch and `--calls` are made.

A signature has a letter for each parameter (hip_runtime_api.h): p any pointer or handle, i int or enum, u unsigned int, h unsigned short,
b unsigned char, z size_t or unsigned long long. Names are those of the library's symbols.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Call:
    """One function of the library: `returns` "error" for a hipError_t, "text" for a C string."""

    name: str
    signature: str
    group: str
    returns: str = "error"


_TABLE = {
    "devices": """
        hipInit u; hipDriverGetVersion p; hipRuntimeGetVersion p; hipGetDeviceCount p; hipGetDevice p; hipSetDevice i; hipDeviceGet pi
        hipDeviceGetName pii; hipDeviceTotalMem pi; hipDeviceComputeCapability ppi; hipDeviceGetAttribute pii; hipDeviceGetPCIBusId pii
        hipDeviceGetUuid pi; hipGetDevicePropertiesR0600 pi; hipDeviceSynchronize; hipDeviceReset; hipDeviceCanAccessPeer pii
        hipDeviceEnablePeerAccess iu; hipDeviceDisablePeerAccess i; hipDeviceGetStreamPriorityRange pp; hipGetDeviceFlags p
        hipSetDeviceFlags u; hipDeviceGetLimit pi; hipCtxCreate pui; hipCtxDestroy p; hipCtxSetCurrent p; hipCtxGetCurrent p
        hipCtxPushCurrent p; hipCtxPopCurrent p; hipCtxGetDevice p; hipCtxSynchronize; hipDevicePrimaryCtxRetain pi
        hipDevicePrimaryCtxRelease i; hipProfilerStart; hipProfilerStop""",
    "errors": """
        hipGetLastError; hipExtGetLastError; hipPeekAtLastError; hipGetErrorName i text; hipGetErrorString i text
        hipDrvGetErrorName ip; hipDrvGetErrorString ip""",
    "memory": """
        hipMalloc pz; hipExtMallocWithFlags pzu; hipFree p; hipMallocAsync pzp; hipFreeAsync pp; hipMallocManaged pzu; hipHostMalloc pzu
        hipHostAlloc pzu; hipMallocHost pz; hipMemAllocHost pz; hipHostFree p; hipFreeHost p; hipHostRegister pzu; hipHostUnregister p
        hipHostGetDevicePointer ppu; hipHostGetFlags pp; hipMallocPitch ppzz; hipMemGetInfo pp; hipMemGetAddressRange ppp
        hipMemPtrGetInfo pp; hipPointerGetAttributes pp; hipMemAdvise pzii; hipMemPrefetchAsync pzip""",
    "copies": """
        hipMemcpy ppzi; hipMemcpyAsync ppzip; hipMemcpyWithStream ppzip; hipMemcpyHtoD ppz; hipMemcpyDtoH ppz; hipMemcpyDtoD ppz
        hipMemcpyHtoDAsync ppzp; hipMemcpyDtoHAsync ppzp; hipMemcpyDtoDAsync ppzp; hipMemcpyPeer pipiz; hipMemcpyPeerAsync pipizp
        hipMemcpy2D pzpzzzi; hipMemcpy2DAsync pzpzzzip; hipMemset piz; hipMemsetAsync pizp; hipMemsetD8 pbz; hipMemsetD8Async pbzp
        hipMemsetD16 phz; hipMemsetD16Async phzp; hipMemsetD32 piz; hipMemsetD32Async pizp; hipMemset2D pzizz; hipMemset2DAsync pzizzp""",
    "modules": """
        hipModuleLoad pp; hipModuleLoadData pp; hipModuleLoadDataEx ppupp; hipModuleLoadFatBinary pp; hipModuleUnload p
        hipModuleGetFunction ppp; hipModuleGetFunctionCount pp; hipModuleGetGlobal pppp; hipModuleLaunchKernel puuuuuuuppp
        hipModuleLaunchCooperativeKernel puuuuuuupp; hipFuncGetAttribute pip
        hipModuleOccupancyMaxActiveBlocksPerMultiprocessor ppiz; hipModuleOccupancyMaxPotentialBlockSize pppzi""",
    "streams": """
        hipStreamCreate p; hipStreamCreateWithFlags pu; hipStreamCreateWithPriority pui; hipStreamDestroy p; hipStreamSynchronize p
        hipStreamQuery p; hipStreamWaitEvent ppu; hipStreamGetFlags pp; hipStreamGetPriority pp; hipStreamGetDevice pp
        hipStreamAddCallback pppu; hipLaunchHostFunc ppp; hipEventCreate p; hipEventCreateWithFlags pu; hipEventDestroy p
        hipEventRecord pp; hipEventRecordWithFlags ppu; hipEventSynchronize p; hipEventQuery p; hipEventElapsedTime ppp""",
    "graphs": """
        hipStreamBeginCapture pi; hipStreamEndCapture pp; hipStreamIsCapturing pp; hipStreamGetCaptureInfo ppp
        hipThreadExchangeStreamCaptureMode p; hipGraphCreate pu; hipGraphDestroy p; hipGraphGetNodes ppp; hipGraphInstantiate ppppz
        hipGraphInstantiateWithFlags ppz; hipGraphUpload pp; hipGraphLaunch pp; hipGraphExecDestroy p""",
}


def _calls() -> tuple[Call, ...]:
    found = []
    for group, text in _TABLE.items():
        for line in text.replace("\n", ";").split(";"):
            words = line.split()
            if words:
                letters = "" if len(words) == 1 or words[1] == "text" else words[1]
                found.append(Call(words[0], letters, group, "text" if words[-1] == "text" else "error"))
    return tuple(found)


CALLS: tuple[Call, ...] = _calls()
"""Every call; its position is the number by which the C library names it."""


def listing() -> str:
    """What `asmgen hip-emulator --calls` prints: a line per group."""
    groups: dict[str, list[str]] = {}
    for call in CALLS:
        groups.setdefault(call.group, []).append(call.name.removesuffix("R0600"))
    return "".join(f"{group}: {' '.join(names)}\n" for group, names in groups.items())
