"""What `asmgen hip-emulator COMMAND...` does: becomes the command, in an environment in which hip-python finds the emulator."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from asmgen.isa.arch import architecture
from asmgen.isa.errors import AsmgenError
from asmgen.isa.quote import quoted
from asmgen.launch.hipemulator.library import library_folders, search_path

MARK = "ASMGEN_HIP_EMULATOR"
"""Set in every process that runs on the emulated runtime: the architectures of its GPUs."""


def environment(archs: Sequence[str], checks: bool = True, order: str = "lockstep", variables: Mapping[str, str] | None = None,
                idle: frozenset[str] = frozenset(), allow: Collection[str] = ()) -> dict[str, str]:
    """The environment in which hip-python finds the emulator: one GPU for each of `archs`. Raises AsmgenError.

    `checks`, `order` and `allow` are those of a launch's Options.
    The calls in `idle` do nothing, for measuring what their callers take.
    hip-python looks into $ROCM_PATH/lib before LD_LIBRARY_PATH, so both name the emulator's folder.
    """
    for arch in archs:
        architecture(arch)
    folders = library_folders(idle)
    given = os.environ if variables is None else variables
    changed = {"LD_LIBRARY_PATH": search_path(folders, given.get("LD_LIBRARY_PATH", "")),
               "ROCM_PATH": str(folders[0].parent), MARK: ",".join(archs),
               f"{MARK}_CHECKS": str(int(checks)), f"{MARK}_ORDER": order, f"{MARK}_ALLOW": ",".join(allow),
               f"{MARK}_HOME": str(Path(__file__).resolve().parents[3])}
    return {**given, **changed}


def warning() -> str:
    """A sentence where another HIP runtime would be found first, else "": wheels of ROCm carry their own."""
    if find_spec("rocm_sdk") is None:
        return ""
    return ("the package rocm_sdk is installed in this Python: hip-python loads the HIP runtime in it, not the emulator; "
            "another environment without it would do")


def become(command: Sequence[str], variables: Mapping[str, str]) -> None:
    """Replace this process by the command. Raises AsmgenError where it cannot be started."""
    try:
        os.execvpe(command[0], list(command), dict(variables))
    except OSError as error:
        raise AsmgenError(f"{quoted(command[0])} cannot be started: {error.strerror or error}") from None
