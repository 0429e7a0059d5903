"""Where asmgen calls the author's function.

`author_frames` (asmgen.regalloc.ranges) knows this file: whoever called it wrote nothing of the kernel, so what is emitted or pinned
here belongs to the place where the author declared the variant.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from functools import partial
from pathlib import PurePath
from types import FunctionType
from typing import TYPE_CHECKING

from asmgen.author.contract.contract import ContractError, KernelContract, Value
from asmgen.author.emit.kernel import Kernel
from asmgen.isa.errors import AsmgenError
from asmgen.program.program import Instruction
from asmgen.regalloc.scalarplaces import placed
from asmgen.regalloc.shortage import OutOfRegisters

if TYPE_CHECKING:
    from asmgen.author.builders.tilebuilder import TileBuilder
    from asmgen.author.contract.variant import Variant


def write_kernel(writer: FunctionType, contract: KernelContract, variant: Variant, parameters: Mapping[str, Value],
                 axes: str, occupancy: int | None, verify: bool = True, fills_argument_wait: bool = False) -> Kernel:
    """Call `writer` with a new builder and finish what it wrote: s_endpgm at the end, waits and wait states where it left them out.
    Without `verify`, those that it asks to verify are not. `fills_argument_wait` as in Family.

    Where SGPRs find no place it is written again, with those placed by how long they are held, as long as that gets further.

    Raises ContractError where it returns something that is no kernel, and what it raises itself.
    """
    from asmgen.author.builders.tilebuilder import TileBuilder

    # No function of its own: `author_frames` asks each frame of this module for its writer.
    builder = partial(TileBuilder, contract, variant.arch, parameters, waves=occupancy, preload=parameters.get("preload") is True,
                      workgroup_ids=axes, variant=variant, verify=verify, fills_argument_wait=fills_argument_wait)
    k, reached = builder(), 0
    while True:
        try:
            return _written(writer, contract, k)
        except OutOfRegisters as error:
            held = k.registers.scalars.known()
            if error.request.file != "s" or error.request.reg is not None or len(held) <= reached:
                raise
            reached = len(held)
        k.let_go()
        k = builder()
        k.registers.scalars.wanted = placed(held)


def _written(writer: FunctionType, contract: KernelContract, k: TileBuilder) -> Kernel:
    """What an author's function writes with a builder, finished."""
    try:
        finished = writer(k)
    except AsmgenError:
        raise
    except Exception as error:
        line = _line_of(error, writer.__code__.co_filename)
        raise AsmgenError(f"{writer.__name__} raised {type(error).__name__}: {error}", line) from error
    if finished is not None and not isinstance(finished, Kernel):
        raise ContractError(f"{contract.name}: the function that writes a variant returns a finished kernel or nothing, not {finished!r}")
    kernel = finished
    if kernel is None:
        written = [item for item in k.items if isinstance(item, Instruction)]
        if not written or written[-1].name != "s_endpgm":
            k.emit("s_endpgm")
        kernel = k.finish()
    k.let_go()
    return kernel


def _line_of(error: Exception, file: str) -> str:
    """The line of the author's file that an error came through."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f"{PurePath(file).name}:{lines[-1]}" if lines else file
