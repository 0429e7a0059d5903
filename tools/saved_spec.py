"""`asmgen run --save-spec DIR`: the launch specification of a library kernel, with its code object and its data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from asmgen.author.contract.problem import Problem
from asmgen.isa.errors import AsmgenError
from asmgen.isa.quote import shown
from asmgen.launch.saves import Save, write_all
from asmgen.tools.build import Built

SPECIFICATION = "spec.json"
"""The file in the folder that other commands take."""


def save_spec(built: Built, problem: Problem, grid: tuple[int, int, int], folder: Path) -> Path:
    """Write spec.json, the code object and an ARGUMENT.npy for each array, all or none; the path of the first.

    Launching it saves each output beside its input, as ARGUMENT_out.npy. Types that numpy does not know stand in the .npy as unsigned
    integers of their size. Raises AsmgenError where the folder cannot be written.
    """
    kernel, code = built.kernel, f"{built.kernel.name}.co"
    outputs = {output.argument for output in problem.outputs}
    saves = [Save(folder / code, lambda file: _write(file, built.code_object))]
    args: list[dict[str, Any]] = []
    for row in kernel.contract.arguments:
        value = problem.arguments[row.name]
        if isinstance(value, np.ndarray):
            saves.append(Save(folder / f"{row.name}.npy", _array_writer(value)))
            args.append({"buffer": f"{row.name}.npy"} | ({"save": f"{row.name}_out.npy"} if row.name in outputs else {}))
        else:
            args.append({"scalar": "u64" if row.type == "pointer" else row.type, "value": value})
    spec = {"code_object": code, "kernel": kernel.resources.name, "arch": kernel.resources.arch, "grid": list(grid),
            "block": list(kernel.contract.workgroup), "args": args}
    saves.append(Save(folder / SPECIFICATION, lambda file: _write(file, (json.dumps(spec, indent=1) + "\n").encode())))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AsmgenError(f"cannot make the folder {shown(folder)}: {error.strerror or error}; "
                          "another one can be named with --save-spec") from None
    write_all(saves, "--save-spec")
    return folder / SPECIFICATION


def _array_writer(value: np.ndarray[Any, Any]) -> Callable[[BinaryIO], None]:
    plain = np.ascontiguousarray(value if value.dtype.isbuiltin == 1 else value.view(f"u{value.dtype.itemsize}")).reshape(value.shape)

    def write(file: BinaryIO) -> None:  # np.save does not say why it cannot
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(plain))
        file.write(plain.reshape(-1).view(np.uint8).data)

    return write


def _write(file: BinaryIO, data: bytes) -> None:
    file.write(data)
