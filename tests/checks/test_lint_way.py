"""The way of a finding through lint: facts are solved once, rules read them, and calls from a lower room up to a higher one are few.

Rooms and their order are those of docs/ARCHITECTURE.md. A call that climbs is one of a function in a higher room by a function in a lower
one, such as a transfer function that the solver of regalloc calls for checks.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType, FrameType

import pytest

from asmgen.checks.finding.finding import LintFinding
from asmgen.checks.lint.facts import KernelFacts
from asmgen.checks.lint.programlint import lint_program
from asmgen.program.program import Program
from asmgen.reader.assembly import read_text
from tests.planted_faults import Planted
from tests.planted_faults_more import FAULTS
from tests.project.test_layers import HOST, ROOT, SUBROOMS

ROOMS = ("isa", "host", "regalloc", "program", "codeobject", "reader", "checks")
MOST_CLIMBS = 3
STRANGE = """
s_mov_b32 s20, 3
again:
v_mfma_f32_16x16x32_bf16 v[0:3], v[4:7], v[8:11], v[0:3]
v_add_f32 v12, v0, v0
buffer_load_dwordx4 v20, s[4:7], 0 offen lds
ds_read_b128 v[24:27], v20
s_waitcnt vmcnt(62)
s_barrier
v_mov_b32 v28, v24 // lint: off Q999
s_sub_u32 s20, s20, 1
s_cmp_lg_u32 s20, 0
s_cbranch_scc1 again
s_endpgm
"""


@dataclass
class Watch:
    """What a profiler saw of one lint: the most climbs on any stack of calls, those on the stack that made each finding, and how often
    each file asked for a solution of dataflow."""

    climbs: int = 0
    findings: list[int] = field(default_factory=list)
    solved: Counter[str] = field(default_factory=Counter)
    _stack: list[tuple[int, int | None]] = field(default_factory=list)  # (climbs so far, floor of the nearest file of ours)

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """A profile function of sys.setprofile."""
        if event == "return":
            if self._stack:
                self._stack.pop()
            return
        if event != "call":
            return
        climbs, below = self._stack[-1] if self._stack else (0, None)
        here = floor(frame.f_code)
        if here is not None and below is not None and here > below:
            climbs += 1
        self._stack.append((climbs, below if here is None else here))
        self.climbs = max(self.climbs, climbs)
        if frame.f_code is LintFinding.__init__.__code__:
            self.findings.append(climbs)
        if frame.f_code.co_name == "solve" and frame.f_code.co_filename.endswith("dataflow.py") and frame.f_back is not None:
            caller = frame.f_back if frame.f_back.f_code.co_name != "solve_masks" else frame.f_back.f_back
            assert caller is not None
            self.solved[f"{caller.f_code.co_filename}:{caller.f_code.co_name}"] += 1


@cache
def floor(code: CodeType) -> int | None:
    """The number of the room, inner rooms counted, that code stands in; None for code that is not asmgen's."""
    path = Path(code.co_filename).resolve()
    if not path.is_relative_to(ROOT):
        return None
    parts = [part for part in path.relative_to(ROOT).with_suffix("").parts if part != "asmgen"]
    room = "host" if parts[0] in HOST else parts[0]
    if room not in ROOMS:
        return None
    inner = SUBROOMS.get(room, ())
    return 100 * ROOMS.index(room) + (inner.index(parts[1]) if len(parts) > 2 and parts[1] in inner else 0)


def watched(program: Program) -> tuple[Watch, list[LintFinding]]:
    """One lint under watch."""
    watch = Watch()
    sys.setprofile(watch)
    try:
        found = lint_program(program, "k.s", KernelFacts(lds=8192, block=(128, 1, 1)))
    finally:
        sys.setprofile(None)
    return watch, found


def programs() -> list[Program]:
    """One program of each kind of planted fault, a kernel of ours, and one that breaks many rules of lint at once."""
    kinds: dict[str, Planted] = {}
    for planted in FAULTS:
        kinds.setdefault(planted.check, planted)
    golden = ROOT / "tests" / "golden" / "04-mfma-tile_gfx950.s"
    texts = [(planted.text(False)[0], planted.arch) for planted in kinds.values()]
    return [read_text(text, arch)[0] for text, arch in [*texts, (golden.read_text(), "gfx950"), (STRANGE, "gfx950")]]


@pytest.mark.parametrize("program", programs(), ids=lambda program: str(len(program.instructions)))
def test_a_finding_climbs_at_most_three_times(program: Program) -> None:
    watch, _ = watched(program)
    assert watch.climbs <= MOST_CLIMBS
    assert max(watch.findings, default=0) <= 1, "a rule is called from above, or by the walk over what is in flight"


def test_facts_are_solved_once() -> None:
    watch, found = watched(programs()[-1])
    assert len({finding.rule for finding in found}) >= 4, [finding.sentence() for finding in found]
    assert watch.solved and set(watch.solved.values()) == {1}, watch.solved


def test_the_watch_counts_climbs() -> None:
    """A call of a planted function of a higher room by one of a lower room."""
    sources = {"isa/low.py": "def low(call):\n    return call()\n",
               "asmgen/checks/lint/high.py": "def high(low):\n    return low(lambda: 1)\n"}
    made: dict[str, object] = {}
    for name, source in sources.items():
        exec(compile(source, str(ROOT / name), "exec"), made)
    watch = Watch()
    sys.setprofile(watch)
    try:
        made["high"](made["low"])  # type: ignore[operator]
    finally:
        sys.setprofile(None)
    assert watch.climbs == 1
