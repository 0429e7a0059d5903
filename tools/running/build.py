"""Building a kernel of a family: assembly text, code object and contract, written together or not at all."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from asmgen.author.emit.kernel import Kernel
from asmgen.author.family.family import Family
from asmgen.checks.finding.finding import LintFinding
from asmgen.checks.lint.facts import KernelFacts
from asmgen.checks.lint.programlint import lint_program
from asmgen.garbage import collection_paused
from asmgen.isa.errors import AsmgenError
from asmgen.isa.records import dataclass
from asmgen.program.program import Instruction
from asmgen.regalloc.report import map_rows
from asmgen.scratch import scratch_folder
from asmgen.toolchain import Toolchain, assemble


@dataclass(frozen=True)
class Built:
    """A kernel, its assembly text and its code object."""

    kernel: Kernel
    text: str
    code_object: bytes


def build_kernel(family: Family, arch: str, parameters: Mapping[str, Any], toolchain: Toolchain | None = None,
                 verify: bool = True) -> Built:
    """Build and assemble the variant that `parameters`, build parameters all, choose; without `verify`, also where waits are missing that
    its author asks to verify. Raises AsmgenError for what cannot be built."""
    with collection_paused(keep=True):
        kernel = family.build(arch, parameters, verify)
        text = kernel.text()
    return Built(kernel, text, assemble(text, arch, toolchain, name=f"{kernel.name}.s"))


def lint_errors(built: Built) -> list[LintFinding]:
    """What `asmgen lint` calls an error in a kernel, in parts too whose waits their author keeps to himself (mode "off")."""
    with collection_paused(keep=True):
        return [finding for kernel in built.kernel.launches for finding in _errors_of(kernel, f"{built.kernel.name}.s")]


def _errors_of(kernel: Kernel, file: str) -> list[LintFinding]:
    program, facts = kernel.program, KernelFacts(lds=kernel.lds.size, block=kernel.contract.workgroup)
    if any(instruction.waits == "off" for instruction in program.instructions):
        program = program.with_items(item.in_mode("verify") if isinstance(item, Instruction) else item for item in program.items)
    return lint_program(program, file, facts, warnings=False)


def description(built: Built) -> dict[str, Any]:
    """The .json: the contract, and of each kernel that is launched its symbol, the register map with the owners' names and the paths of its
    pipelines, tied to the code object by its digest. The symbol of a kernel that is launched alone stands in the document itself too."""
    document = built.kernel.contract.describe(built.kernel.resources.arch, built.kernel.parameters)
    launches = [row | _maps(kernel) for row, kernel in zip(document["launches"], built.kernel.launches, strict=True)]
    more = {"symbol": built.kernel.resources.name} if len(launches) == 1 else {}
    return document | more | {"launches": launches, "code_object_sha256": hashlib.sha256(built.code_object).hexdigest()}


def _maps(kernel: Kernel) -> dict[str, Any]:
    rows = map_rows(kernel.plan.spans(kernel.regions[-1].last), kernel.regions)
    return {
        "symbol": kernel.resources.name,
        "register_map": {
            "regions": [region.name for region in kernel.regions],
            "rows": [{"registers": str(row.reg), "owners": [list(names) for names in row.owners]} for row in rows],
        },
        "pipelines": [graph.as_json() for graph in kernel.paths],
        "lds_map": [{"name": item.name, "low": item.low, "high": item.high} for item in kernel.lds.ranges],
    }


def write_built(built: Built, folder: Path, more: Mapping[str, bytes] = MappingProxyType({})) -> list[Path]:
    """Write .s, .co and .json, and `more` by suffix, under the variant's name. Raises AsmgenError where the folder cannot be written; then
    none is there."""
    contents = {".s": built.text.encode(), ".co": built.code_object,
                ".json": (json.dumps(description(built), indent=1, sort_keys=True) + "\n").encode(), **more}
    targets = [folder / f"{built.kernel.name}{suffix}" for suffix in contents]
    name = built.kernel.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with scratch_folder(folder) as scratch:
            for target, data in zip(targets, contents.values(), strict=True):
                name = target.name
                (scratch / name).write_bytes(data)
            for target in targets:
                name = target.name
                os.replace(scratch / name, target)
    except OSError as error:
        raise AsmgenError(f"cannot write {name} to {folder}: {error.strerror or error}; "
                          "another folder can be named with -o") from None
    return targets
