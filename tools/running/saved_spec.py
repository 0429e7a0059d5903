"""`asmgen run --save-spec DIR`: the launch specification of a library kernel, with its code object and its data."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from asmgen.author.contract.contract import ContractArgument, KernelContract
from asmgen.author.contract.problem import Problem
from asmgen.isa.errors import AsmgenError
from asmgen.isa.quote import shown
from asmgen.launch.saves import Save, write_all
from asmgen.tools.running.build import Built

SPECIFICATION = "spec.json"
"""The file in the folder that other commands take."""


def save_spec(built: Built, problem: Problem, parameters: Mapping[str, Any], folder: Path) -> Path:
    """Write spec.json, the code object and an ARGUMENT.npy for each array, all or none; the path of the first.

    Launching it saves each output beside its input, as ARGUMENT_out.npy. Types that numpy does not know stand in the .npy as unsigned
    integers of their size. Several kernels stand as `launches`, with workspaces that have no contents. Raises AsmgenError where the folder
    cannot be written.
    """
    kernel, code = built.kernel, f"{built.kernel.name}.co"
    arrays = {row.name: problem.arguments[row.name] for row in kernel.contract.given if isinstance(problem.arguments[row.name], np.ndarray)}
    saves = [Save(folder / code, lambda file: _write(file, built.code_object)),
             *(Save(folder / f"{name}.npy", _array_writer(value)) for name, value in arrays.items())]
    named: set[str] = set()
    launches: list[dict[str, Any]] = [
        {"kernel": one.resources.name, "grid": list(one.contract.grid_of(parameters)), "block": list(one.contract.workgroup),
         "args": [_argument(row, kernel.contract, problem, parameters, named) for row in one.contract.arguments]}
        for one in kernel.launches]
    if len(launches) == 1:
        for entry in launches[0]["args"]:
            entry.pop("name", None)  # nobody asks for it
    spec = {"code_object": code, "arch": kernel.resources.arch} | (launches[0] if len(launches) == 1 else {"launches": launches})
    saves.append(Save(folder / SPECIFICATION, lambda file: _write(file, (json.dumps(spec, indent=1) + "\n").encode())))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AsmgenError(f"cannot make the folder {shown(folder)}: {error.strerror or error}; "
                          "another one can be named with --save-spec") from None
    write_all(saves, "--save-spec")
    return folder / SPECIFICATION


def _argument(row: ContractArgument, contract: KernelContract, problem: Problem, parameters: Mapping[str, Any],
              named: set[str]) -> dict[str, Any]:
    """One argument of a launch. A buffer stands where it is first an argument; `named` are those that stand somewhere."""
    value = problem.arguments.get(row.name)
    workspace = next((one for one in contract.workspaces if one.name == row.name), None)
    if workspace is None and not isinstance(value, np.ndarray):
        return {"scalar": "u64" if row.type == "pointer" else row.type, "value": value}
    if row.name in named:
        return {"same_as": row.name}
    named.add(row.name)
    if workspace is not None:
        return {"zeros" if workspace.zeroed else "undefined": contract.workspace_bytes_of(parameters)[row.name], "name": row.name}
    saved = {"save": f"{row.name}_out.npy"} if row.name in {output.argument for output in problem.outputs} else {}
    return {"buffer": f"{row.name}.npy", "name": row.name} | saved


def _array_writer(value: np.ndarray[Any, Any]) -> Callable[[BinaryIO], None]:
    plain = np.ascontiguousarray(value if value.dtype.isbuiltin == 1 else value.view(f"u{value.dtype.itemsize}")).reshape(value.shape)

    def write(file: BinaryIO) -> None:  # np.save does not say why it cannot
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(plain))
        file.write(plain.reshape(-1).view(np.uint8).data)

    return write


def _write(file: BinaryIO, data: bytes) -> None:
    file.write(data)
