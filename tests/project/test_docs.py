"""The code of docs/WRITE_A_KERNEL.md builds, and what it builds is what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from asmgen.author.builders.tilebuilder import TileBuilder
from asmgen.author.contract.variant import Variant
from asmgen.author.emit.kernel import Kernel
from asmgen.author.epilogue import stores as epilogue
from asmgen.author.ops import arithmetic, movement
from asmgen.author.schedule import schedules
from asmgen.author.tiles import swizzles
from asmgen.checks.lint.programlint import lint_program
from asmgen.isa.registers import v
from asmgen.kernels.gemm_bf16.family import GEMM
from asmgen.program.controlflow import control_flow

PAGE = Path(__file__).resolve().parents[2] / "docs/WRITE_A_KERNEL.md"


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    """The page's functions in one name space, and `gemm` called."""
    modules = (arithmetic, epilogue, movement, schedules, swizzles)
    names = {"v": v} | {name: value for module in modules for name, value in vars(module).items()}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(block, names)
    variant = Variant("gemm-bf16", "gfx950", (256, 256, 64), (2, 4), "ping-pong", 2, ())
    made = names["gemm"](TileBuilder(GEMM.contract_of(variant), "gfx950", {}, waves=2, workgroup_ids="xy", variant=variant))
    assert isinstance(made, Kernel)
    return made


def test_the_page_builds_a_kernel_that_lint_has_nothing_against(kernel: Kernel) -> None:
    found = [finding for finding in lint_program(kernel.program) if finding.severity in ("error", "warning")]
    assert not found, found


def test_the_page_quotes_what_is_built(kernel: Kernel) -> None:
    """The steady wait of ping-pong, the LDS map and the plan in the text, and 128 MFMA for two steps in the loop."""
    text = kernel.text()
    assert "s_waitcnt vmcnt(10)" in text and "newer vector-memory operations in flight" in text
    assert 131072 < kernel.lds.size == kernel.contract.lds_bytes  # four half tiles of two stages, and pads
    assert (kernel.resources.vgprs, kernel.resources.agprs) == (256, 0)
    (loop,) = control_flow(kernel.program).loops()
    assert sum(item.opcode.group == "matrix" for item in kernel.program.instructions[loop.first:loop.last + 1]) == 128
    for name in ("C", "A", "B", "As", "Bs"):
        assert re.search(rf"^;.*\b{name}\b", text, re.MULTILINE), name


def test_lines_of_code_on_the_page_are_few() -> None:
    """A flagship's step, plan and epilogue fit on one screen and a half."""
    code = "".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))
    assert 40 < len([line for line in code.splitlines() if line.strip()]) < 70
