"""HIP's error codes and their texts, and the exception by which a call of the emulated runtime fails."""

from __future__ import annotations

import ctypes

# Source: hip_runtime_api.h (hipError_t) and what ROCm's hipGetErrorString says. Name: (code, text).
_TABLE: dict[str, tuple[int, str]] = {
    "hipSuccess": (0, "no error"),
    "hipErrorInvalidValue": (1, "invalid argument"),
    "hipErrorOutOfMemory": (2, "out of memory"),
    "hipErrorNotInitialized": (3, "initialization error"),
    "hipErrorDeinitialized": (4, "driver shutting down"),
    "hipErrorProfilerDisabled": (5, "profiler disabled while using external profiling tool"),
    "hipErrorProfilerNotInitialized": (6, "profiler is not initialized"),
    "hipErrorProfilerAlreadyStarted": (7, "profiler already started"),
    "hipErrorProfilerAlreadyStopped": (8, "profiler already stopped"),
    "hipErrorInvalidConfiguration": (9, "invalid configuration argument"),
    "hipErrorInvalidPitchValue": (12, "invalid pitch argument"),
    "hipErrorInvalidSymbol": (13, "invalid device symbol"),
    "hipErrorInvalidDevicePointer": (17, "invalid device pointer"),
    "hipErrorInvalidMemcpyDirection": (21, "invalid copy direction for memcpy"),
    "hipErrorInsufficientDriver": (35, "driver version is insufficient for runtime version"),
    "hipErrorMissingConfiguration": (52, "__global__ function call is not configured"),
    "hipErrorPriorLaunchFailure": (53, "unspecified launch failure in prior launch"),
    "hipErrorInvalidDeviceFunction": (98, "invalid device function"),
    "hipErrorNoDevice": (100, "no ROCm-capable device is detected"),
    "hipErrorInvalidDevice": (101, "invalid device ordinal"),
    "hipErrorInvalidImage": (200, "device kernel image is invalid"),
    "hipErrorInvalidContext": (201, "invalid device context"),
    "hipErrorContextAlreadyCurrent": (202, "context is already current context"),
    "hipErrorMapFailed": (205, "mapping of buffer object failed"),
    "hipErrorUnmapFailed": (206, "unmapping of buffer object failed"),
    "hipErrorArrayIsMapped": (207, "array is mapped"),
    "hipErrorAlreadyMapped": (208, "resource already mapped"),
    "hipErrorNoBinaryForGpu": (209, "no kernel image is available for execution on the device"),
    "hipErrorAlreadyAcquired": (210, "resource already acquired"),
    "hipErrorNotMapped": (211, "resource not mapped"),
    "hipErrorNotMappedAsArray": (212, "resource not mapped as array"),
    "hipErrorNotMappedAsPointer": (213, "resource not mapped as pointer"),
    "hipErrorECCNotCorrectable": (214, "uncorrectable ECC error encountered"),
    "hipErrorUnsupportedLimit": (215, "limit is not supported on this architecture"),
    "hipErrorContextAlreadyInUse": (216, "exclusive-thread device already in use by a different thread"),
    "hipErrorPeerAccessUnsupported": (217, "peer access is not supported between these two devices"),
    "hipErrorInvalidKernelFile": (218, "invalid kernel file"),
    "hipErrorInvalidGraphicsContext": (219, "invalid OpenGL or DirectX context"),
    "hipErrorInvalidSource": (300, "device kernel image is invalid"),
    "hipErrorFileNotFound": (301, "file not found"),
    "hipErrorSharedObjectSymbolNotFound": (302, "shared object symbol not found"),
    "hipErrorSharedObjectInitFailed": (303, "shared object initialization failed"),
    "hipErrorOperatingSystem": (304, "OS call failed or operation not supported on this OS"),
    "hipErrorInvalidHandle": (400, "invalid resource handle"),
    "hipErrorIllegalState": (401, "the operation cannot be performed in the present state"),
    "hipErrorNotFound": (500, "named symbol not found"),
    "hipErrorNotReady": (600, "device not ready"),
    "hipErrorIllegalAddress": (700, "an illegal memory access was encountered"),
    "hipErrorLaunchOutOfResources": (701, "too many resources requested for launch"),
    "hipErrorLaunchTimeOut": (702, "the launch timed out and was terminated"),
    "hipErrorPeerAccessAlreadyEnabled": (704, "peer access is already enabled"),
    "hipErrorPeerAccessNotEnabled": (705, "peer access has not been enabled"),
    "hipErrorSetOnActiveProcess": (708, "cannot set while device is active in this process"),
    "hipErrorContextIsDestroyed": (709, "context is destroyed"),
    "hipErrorAssert": (710, "device-side assert triggered"),
    "hipErrorHostMemoryAlreadyRegistered": (712, "part or all of the requested memory range is already mapped"),
    "hipErrorHostMemoryNotRegistered": (713, "pointer does not correspond to a registered memory region"),
    "hipErrorLaunchFailure": (719, "unspecified launch failure"),
    "hipErrorCooperativeLaunchTooLarge": (720, "too many blocks in cooperative launch"),
    "hipErrorNotSupported": (801, "operation not supported"),
    "hipErrorStreamCaptureUnsupported": (900, "operation not permitted when stream is capturing"),
    "hipErrorStreamCaptureInvalidated": (901, "operation failed due to a previous error during capture"),
    "hipErrorStreamCaptureMerge": (902, "operation would result in a merge of separate capture sequences"),
    "hipErrorStreamCaptureUnmatched": (903, "capture was not ended in the same stream as it began"),
    "hipErrorStreamCaptureUnjoined": (904, "capturing stream has unjoined work"),
    "hipErrorStreamCaptureIsolation": (905, "dependency created on uncaptured work in another stream"),
    "hipErrorStreamCaptureImplicit": (906, "operation would make the legacy stream depend on a capturing blocking stream"),
    "hipErrorCapturedEvent": (907, "operation not permitted on an event last recorded in a capturing stream"),
    "hipErrorStreamCaptureWrongThread": (908, "attempt to terminate a thread-local capture sequence from another thread"),
    "hipErrorGraphExecUpdateFailure": (910, "the graph update was not performed because it included changes which violated constraints"),
    "hipErrorInvalidChannelDescriptor": (911, "invalid channel descriptor"),
    "hipErrorInvalidTexture": (912, "invalid texture reference"),
    "hipErrorUnknown": (999, "unknown error"),
    "hipErrorRuntimeMemory": (1052, "runtime memory call returned error"),
    "hipErrorRuntimeOther": (1053, "runtime call other than memory returned error"),
    "hipErrorTbd": (1055, "to be determined/implemented"),
}
_NAMES = {code: name for name, (code, _) in _TABLE.items()}
_INTERNED: dict[str, ctypes.Array[ctypes.c_char]] = {}  # C strings that callers may keep for ever


class HipError(Exception):
    """A call returns this error; `sentence`, if any, says on stderr what HIP's code cannot."""

    def __init__(self, name: str, sentence: str = "") -> None:
        super().__init__(name)
        self.name = name
        self.code = _TABLE[name][0]
        self.sentence = sentence


def error_name(code: int) -> str:
    """HIP's name of a code."""
    return _NAMES.get(code, "hipErrorUnknown")


def error_text(code: int) -> str:
    """HIP's text for a code."""
    return _TABLE[error_name(code)][1]


def c_string(text: str) -> int:
    """The address of a C string that lives as long as the process."""
    if text not in _INTERNED:
        _INTERNED[text] = ctypes.create_string_buffer(text.encode())
    return ctypes.addressof(_INTERNED[text])
