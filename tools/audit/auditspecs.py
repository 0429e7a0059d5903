"""`asmgen audit --specs DIR`: a launch specification (docs/FORMATS.md section 3) of each kernel, from what its metadata says, so that
`asmgen launch` checks what only a run shows: arrival of data, races, undefined bits.

Metadata tells the arguments' places, sizes and kinds, LDS and the workgroup; beside Triton's .hsaco a .json tells the warps and the dynamic
LDS. It does not tell what the data is. So buffers are of zeros and numbers are a small size, both of which a reader has to replace. How
much dynamic LDS kernels of HIP and OpenCL are launched with it does not tell, only that there is some: they get all that there is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from asmgen.checks.lint.facts import block_of, most_of
from asmgen.codeobject.load import CodeObject, KernelRecord
from asmgen.codeobject.metadata import Argument
from asmgen.files import FileError, read_plain, write_plain
from asmgen.isa.arch import LANES, architecture
from asmgen.isa.errors import AsmgenError
from asmgen.tools.audit.auditfiles import FoundObject, FoundObjects

GUESSED_BYTES, GUESSED_NUMBER = 1 << 20, 64
"""Of a buffer; of a number, which is a size, a stride or a count mostly: rows of so many elements lie in such a buffer."""
_GRID = (2, 1, 1)  # workgroups that meet
_UNSAID, _USUAL_BLOCK = 1024, 256  # work-items: what compilers allow where nobody says how many; what many launches have
_DYNAMIC = ("hidden_dynamic_lds_size", "dynamic_shared_pointer")
_POINTERS = ("global_buffer", "pipe", "queue", "image", "sampler")
_INTEGERS = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}


@dataclass(frozen=True)
class WrittenSpecs:
    """The specifications that were written, and why others were not: (kernel, sentence)."""

    paths: tuple[Path, ...]
    refused: tuple[tuple[str, str], ...]

    def text(self, folder: Path) -> str:
        """For people."""
        lines = [f"{len(self.paths)} launch specifications in {folder}: buffers of {GUESSED_BYTES} zero bytes, numbers {GUESSED_NUMBER}, "
                 f"the grid and dynamic_lds are guesses; put the kernel's own there, then asmgen launch FILE"]
        return "\n".join([*lines, *(f"none of {name}: {why}" for name, why in self.refused), ""])


def write_specs(paths: list[Path], folder: Path) -> WrittenSpecs:
    """A specification of each kernel of the code objects in files and below folders, with the code objects beside them.

    Raises FileError where the folder cannot be written.
    """
    written: list[Path] = []
    refused: list[tuple[str, str]] = []
    for found in FoundObjects(paths):
        try:
            loaded = CodeObject.load(found.data, origin=found.label) if not found.failure else None
        except AsmgenError as error:
            refused.append((found.label, str(error)))
            continue
        if loaded is None or not loaded.kernels:
            continue
        code = f"{sha256(found.data).hexdigest()[:12]}.co"
        folder.mkdir(parents=True, exist_ok=True)
        write_plain(folder / code, found.data)
        beside = _beside(found)
        for kernel in loaded.kernels.values():
            try:
                spec = specification(kernel, code, beside, architecture(loaded.arch).lds_bytes)
            except AsmgenError as error:
                refused.append((kernel.name, str(error)))
                continue
            path = folder / f"{re.sub('[^A-Za-z0-9_.-]', '_', kernel.name)[:80]}_{code[:6]}_{len(written)}.json"
            write_plain(path, f"{json.dumps(spec, indent=1)}\n".encode())
            written.append(path)
    return WrittenSpecs(tuple(written), tuple(refused))


def specification(kernel: KernelRecord, code: str, beside: Mapping[str, Any], most_lds: int) -> dict[str, Any]:
    """The document for a kernel of the code object at the path `code`; `beside` is what Triton's .json says, `most_lds` what a workgroup
    may have.

    Raises AsmgenError where the metadata has no arguments though the kernel reads a segment of them.
    """
    arguments = [row for row in kernel.arguments if not row.hidden]
    if not kernel.arguments and kernel.resources.kernarg_size:
        raise AsmgenError(f"it takes {kernel.resources.kernarg_size} bytes of arguments, and its metadata does not say what they are")
    spec = {"code_object": code, "kernel": kernel.name, "grid": list(_GRID), "block": list(_block(kernel, beside)),
            "args": [_argument(row) for row in arguments]}
    shared = beside.get("shared")
    if type(shared) is not int and any(row.value_kind in _DYNAMIC for row in kernel.arguments):
        shared = most_lds
    dynamic = shared - kernel.descriptor.group_segment_fixed_size if type(shared) is int else 0
    return {**spec, "dynamic_lds": dynamic} if dynamic > 0 else spec


def _block(kernel: KernelRecord, beside: Mapping[str, Any]) -> tuple[int, int, int]:
    warps = beside.get("num_warps")
    if type(warps) is int and warps > 0:
        return LANES * warps, 1, 1
    most = most_of(kernel.metadata) or LANES
    return block_of(kernel.metadata, 1) or (_USUAL_BLOCK if most == _UNSAID else most, 1, 1)


def _argument(row: Argument) -> dict[str, Any]:
    if row.value_kind in _POINTERS:
        return {"offset": row.offset, "zeros": GUESSED_BYTES}
    kind = _INTEGERS.get(row.size) if row.value_kind == "by_value" else None
    if kind is None:  # a struct, or a pointer into LDS
        return {"offset": row.offset, "bytes": "00" * row.size}
    return {"offset": row.offset, "scalar": kind, "value": GUESSED_NUMBER}


def _beside(found: FoundObject) -> dict[str, Any]:
    """What Triton's compiler wrote beside a .hsaco of its cache; nothing where there is none."""
    path = Path(found.file).with_suffix(".json")
    try:
        read = json.loads(read_plain(path)) if found.file.endswith(".hsaco") and path.is_file() else {}
    except (FileError, ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}
