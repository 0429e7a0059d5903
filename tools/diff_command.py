"""`asmgen diff A B`: two kernels side by side on the figures of `asmgen inspect`, their loops matched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asmgen.isa.errors import AsmgenError
from asmgen.isa.quote import shown
from asmgen.isa.timing import gpu_of, timing
from asmgen.model.profile import LoopProfile
from asmgen.tools.inspection.codefigures import CodeFigures, WaitReport
from asmgen.tools.inspection.inspection import FileReport, KernelReport, LoopReport, inspect_file
from asmgen.tools.inspection.inspectiontext import loop_heading
from asmgen.tools.inspection.looptimeline import LoopTimeline, loop_timeline
from asmgen.tools.terminal.texttables import render, table

Figures = dict[str, float]
_ALIKE = 0.15
"""Loops whose instructions are less alike than this are not the same loop."""


@dataclass(frozen=True)
class LoopPair:
    """Two loops that do the same, or one that the other kernel has not. `likeness` is the share of instructions, by group, in common.
    `predicted` are the clk of a round of A and B by the timing table, and with its parameters at both ends of their ranges."""

    a: LoopReport | None
    b: LoopReport | None
    likeness: float
    figures: tuple[Figures, Figures]
    predicted: tuple[tuple[float, float], ...] = ()

    @property
    def order(self) -> str:
        """Whether the one that is predicted faster is so within the ranges: "holds", "open", or "" where the two are not both timed."""
        signs = {(a > b) - (a < b) for a, b in self.predicted}
        return "" if not self.predicted else "holds" if len(signs) == 1 and signs != {0} else "open"

    def ranges(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Least and most clk of A and of B."""
        a, b = zip(*self.predicted, strict=True)
        return (min(a), max(a)), (min(b), max(b))

    def as_json(self) -> dict[str, Any]:
        """Places and figures, [of A, of B]."""
        loop_spans = {side: {"first": loop.first, "last": loop.last} if loop is not None else None for side, loop in
                  (("a", self.a), ("b", self.b))}
        ranges = self.ranges() if self.predicted else ((None, None), (None, None))
        return {**loop_spans, "likeness": round(self.likeness, 4), "figures": _paired(self.figures),
                "predicted_clk": {side: {"low": low, "high": high} for side, (low, high) in zip("ab", ranges, strict=True)},
                "order": self.order or None}


@dataclass(frozen=True)
class KernelPair:
    """Two kernels and their matched loops."""

    a: KernelReport
    b: KernelReport
    figures: tuple[Figures, Figures]
    loops: tuple[LoopPair, ...]

    def as_json(self) -> dict[str, Any]:
        """Names, figures, arguments that differ, loops."""
        return {"a": self.a.name, "b": self.b.name, "figures": _paired(self.figures),
                "arguments": [{"a": one, "b": other} for one, other in self.arguments()], "loops": [loop.as_json() for loop in self.loops]}

    def arguments(self) -> list[tuple[str | None, str | None]]:
        """Arguments in order where the two differ, as text."""
        mine, its = ([f"{row.name or '(unnamed)'} at {row.offset}, {row.size} bytes, {row.value_kind}" for row in kernel.arguments]
                     for kernel in (self.a, self.b))
        longest = max(len(mine), len(its))
        rows = zip(_filled(mine, longest), _filled(its, longest), strict=True)
        return [(one, other) for one, other in rows if one != other]


@dataclass(frozen=True)
class FileDiff:
    """Two files."""

    a: FileReport
    b: FileReport
    kernels: tuple[KernelPair, ...]

    def as_json(self) -> dict[str, Any]:
        """The JSON document of `asmgen diff --json`."""
        return {"a": {"file": self.a.file, "arch": self.a.arch}, "b": {"file": self.b.file, "arch": self.b.arch},
                "kernels": [pair.as_json() for pair in self.kernels]}

    def text(self) -> str:
        """For people: a table a pair of kernels and one a pair of loops; figures that are 0 in both are left out."""
        parts: list[Any] = [f"A: {self.a.file} ({self.a.arch})", f"B: {self.b.file} ({self.b.arch})"]
        for pair in self.kernels:
            same = pair.a.name == pair.b.name
            parts += ["", pair.a.name if same else f"{pair.a.name} and {pair.b.name}", _table(pair.figures)]
            for one, other in pair.arguments():
                parts.append(f"argument: A {one or 'has none'}; B {other or 'has none'}")
            for loop in pair.loops:
                parts += ["", *_loop_heads(pair, loop), _table(loop.figures), *_order(loop)]
        return render(*parts)


def _loop_heads(pair: KernelPair, loop: LoopPair) -> list[str]:
    heads = []
    for side, kernel, one in (("A", pair.a, loop.a), ("B", pair.b, loop.b)):
        heads.append(f"{side} {loop_heading(kernel.loops.index(one) + 1, one)}" if one is not None else f"{side} has no such loop")
    return heads


def _order(loop: LoopPair) -> list[str]:
    if not loop.predicted:
        return []
    (low, high), (its_low, its_high) = loop.ranges()
    verdict = {"holds": "the order holds within the ranges of the timing table's parameters",
               "open": "within the ranges of the timing table's parameters either may be the faster"}[loop.order]
    return [f"predicted clk a round: A {low:.1f} to {high:.1f}, B {its_low:.1f} to {its_high:.1f}: {verdict}"]


def diff_files(a: Path, b: Path, arch: str | None = None) -> FileDiff:
    """Inspect both and compare. Kernels are matched by name; where both files have one, these two. Raises AsmgenError where a file cannot
    be read or no kernels match."""
    one, other = inspect_file(a, arch), inspect_file(b, arch)
    named = {kernel.name: kernel for kernel in other.kernels}
    pairs = [(kernel, named[kernel.name]) for kernel in one.kernels if kernel.name in named]
    if not pairs and len(one.kernels) == len(other.kernels) == 1:
        pairs = [(one.kernels[0], other.kernels[0])]
    if not pairs:
        names = [", ".join(kernel.name for kernel in report.kernels) or "none" for report in (one, other)]
        raise AsmgenError(f"{shown(a)} and {shown(b)} have no kernel of one name: {names[0]} here, {names[1]} there")
    return FileDiff(one, other, tuple(compare(*pair) for pair in pairs))


def compare(a: KernelReport, b: KernelReport) -> KernelPair:
    """Two kernels."""
    predicted = [loop_timeline(kernel) for kernel in (a, b)]
    ends = [[loop_timeline(kernel, chosen=timing(gpu_of(kernel.program.arch)).at_end(slow)) for kernel in (a, b)] for slow in (False, True)]
    loops = []
    for one, other, likeness in match_loops(a.loops, b.loops):
        found = [_loop_figures(kernel, loop, timeline if timeline is not None and loop in (timeline.loop, *timeline.sisters) else None)
                 for kernel, loop, timeline in zip((a, b), (one, other), predicted, strict=True)]
        clocks = [(_round_clocks(one, mine), _round_clocks(other, its)) for mine, its in (predicted, *ends)]
        both = tuple((mine, its) for mine, its in clocks if mine is not None and its is not None)
        loops.append(LoopPair(one, other, likeness, (found[0], found[1]), both if len(both) == len(clocks) else ()))
    return KernelPair(a, b, (_kernel_figures(a), _kernel_figures(b)), tuple(loops))


def match_loops(a: Sequence[LoopReport], b: Sequence[LoopReport]) -> list[tuple[LoopReport | None, LoopReport | None, float]]:
    """Loops in order, so matched that the pairs are as alike as can be; a loop without its like stands alone."""
    alike = [[likeness(one, other) for other in b] for one in a]
    best = [[0.0] * (len(b) + 1) for _ in range(len(a) + 1)]  # of the loops from there on
    for i in range(len(a) - 1, -1, -1):
        for j in range(len(b) - 1, -1, -1):
            pair = alike[i][j] + best[i + 1][j + 1] if alike[i][j] >= _ALIKE else 0.0
            best[i][j] = max(best[i + 1][j], best[i][j + 1], pair)
    found: list[tuple[LoopReport | None, LoopReport | None, float]] = []
    i = j = 0
    while i < len(a) and j < len(b):
        if alike[i][j] >= _ALIKE and best[i][j] == alike[i][j] + best[i + 1][j + 1]:
            found.append((a[i], b[j], alike[i][j]))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            found.append((a[i], None, 0.0))
            i += 1
        else:
            found.append((None, b[j], 0.0))
            j += 1
    return found + [(one, None, 0.0) for one in a[i:]] + [(None, other, 0.0) for other in b[j:]]


def likeness(a: LoopReport, b: LoopReport) -> float:
    """Of instructions by group, and matrix instructions by kind, the share that both have; of two unrolled copies a half."""
    one, other = (Counter({group: count for group, count in loop.code.groups.items() if group != "matrix"})
                  + Counter({kind.name: kind.count for kind in loop.code.matrix}) for loop in (a, b))
    return (one & other).total() / max(1, (one | other).total())


def _kernel_figures(kernel: KernelReport) -> Figures:
    step = kernel.step
    found: Figures = {**kernel.resources, "spare_registers": step.spare_registers, "workgroup": kernel.most_workitems or 0,
                      "loops": len(kernel.loops), "lds_map.ranges": len(kernel.lds.rows)}
    return found | _code_figures(kernel.code, kernel.waits, kernel, 0, kernel.code.instructions - 1)


def _loop_figures(kernel: KernelReport, loop: LoopReport | None, timeline: LoopTimeline | None) -> Figures:
    if loop is None:
        return {}
    found = _code_figures(loop.code, [wait for wait in kernel.waits if loop.first <= wait.position <= loop.last], kernel, loop.first,
                          loop.last)
    if loop.waves is not None:
        found["waves"] = len(loop.waves)
    if timeline is not None:
        timed = _timed(loop, timeline)
        if timed is not None:
            found |= {"predicted.clk_a_round": round(timed.cycles, 1), "predicted.matrix_busy": round(timed.matrix_busy, 4)}
            found |= {f"predicted.stall.{cause}": round(clocks, 1) for cause, clocks in timed.stalls.items()}
    return found


def _timed(loop: LoopReport, timeline: LoopTimeline) -> LoopProfile | None:
    return next((one for one in timeline.profile.loops if (one.first, one.last) == (loop.first, loop.last)), None)


def _round_clocks(loop: LoopReport | None, timeline: LoopTimeline | None) -> float | None:
    """clk of a round, None where it is not timed."""
    if loop is None or timeline is None or loop not in (timeline.loop, *timeline.sisters):
        return None
    timed = _timed(loop, timeline)
    return timed.cycles if timed is not None else None


def _code_figures(code: CodeFigures, waits: Sequence[WaitReport], kernel: KernelReport, first: int, last: int) -> Figures:
    stream = code.stream
    found: Figures = {"instructions": code.instructions, **code.groups}
    found |= {f"{group}_per_mfma": count for group, count in code.per_mfma.items() if group != "matrix"}
    found |= {f"mfma.{kind.name}": kind.count for kind in code.matrix} | {"mfma_cycles": code.matrix_cycles}
    found |= {f"mfma_gap.{gap}": count for gap, count in stream.gaps.items()}
    found |= {"mfma_reuse.accumulator": stream.same_accumulator, "mfma_reuse.a": stream.same_a, "mfma_reuse.b": stream.same_b,
              "mfma_reuse.any": stream.holding, "mfma_reuse.operand_reads_left_out": stream.left_out}
    found |= {f"bytes.{kind}": size for kind, size in code.traffic.items()}
    for use in code.uses:
        found |= {f"first_use.{use.group}.{name}": value for name, value in zip(("min", "median", "max"), use.instructions, strict=True)}
    found |= {"address_registers": len(code.addresses)} | {f"copies.{way}": count for way, count in code.copies.items()}
    found |= dict(sorted(Counter(f"waits.{counter}({count})" for wait in waits for counter, count in wait.counts.items()).items()))
    nops = [instruction for instruction in kernel.program.instructions[first:last + 1] if instruction.name == "s_nop"]
    return found | {"nop_states": sum(operand + 1 for nop in nops for operand in nop.operands if isinstance(operand, int))}


def _paired(figures: tuple[Mapping[str, float], Mapping[str, float]]) -> dict[str, list[float | None]]:
    """By name [of A, of B], None where there is no such loop; those of one kind together."""
    a, b = figures
    names = list(dict.fromkeys((*a, *b)))
    kinds = list(dict.fromkeys(name.partition(".")[0] for name in names))
    names.sort(key=lambda name: kinds.index(name.partition(".")[0]))
    return {name: [a.get(name, 0) if a else None, b.get(name, 0) if b else None] for name in names}


def _table(figures: tuple[Figures, Figures]) -> Any:
    rows = []
    for name, (a, b) in _paired(figures).items():
        if a or b:
            change = f"{'+' if b > a else ''}{_number(b - a)}" if a is not None and b is not None and a != b else ""
            rows.append((name, _number(a), _number(b), change))
    return table(("figure", "A", "B", "B - A"), rows, numbers=("A", "B", "B - A"))


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return str(int(value)) if value == int(value) else f"{value:.2f}"


def _filled(texts: list[str], length: int) -> list[str | None]:
    return [*texts, *[None] * (length - len(texts))]
