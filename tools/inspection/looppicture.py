"""Pictures of `asmgen inspect --html` as SVG: a round of the main loop on waves and units, and the map of LDS."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from html import escape

from asmgen.isa.opcode import group_of
from asmgen.model.costs import CostKind
from asmgen.model.cycles import WaveTimes
from asmgen.program.program import Program
from asmgen.tools.inspection.ldsuse import LdsRow
from asmgen.tools.inspection.looptimeline import LoopTimeline

GROUP_COLOURS = {
    "matrix": "#2f6fb5", "lds_read": "#2c9c69", "lds_write": "#86b81f", "lds_dma": "#149c9c", "global_load": "#8a5cc2",
    "global_store": "#b8479c", "valu": "#e08e2b", "valu_address": "#caa14a", "accvgpr": "#8f6a1f", "salu": "#8c8c8c", "branch": "#444444",
    "wait": "#d64545", "nop": "#e59a9a", "barrier": "#7a1f1f", "other": "#bbbbbb"}
"""Of the groups of instructions (docs/FORMATS.md section 2)."""
STALL_COLOURS = {"wait vm": "#f7caca", "wait lgkm": "#cbe9cf", "barrier": "#e2d2f4", "matrix core": "#cfe0f4", "dependency": "#fde5bd"}
"""Of what waves wait for; other causes are grey."""
_OTHER_STALL = "#e4e4e4"
_WIDTH, _LABEL, _ROW, _GAP = 1190, 130, 15, 3
_STRIP, _MOST_STRIPS = 640, 8  # about so many clk in a strip, more where the round would need more strips than these
_MOST_WAVES = 8
_TICKS = 64

Span = tuple[int, int, str]
"""clk from, clk to, colour."""


def timeline_svg(shown: LoopTimeline) -> str:
    """The round: strips one below the other, in each a row a wave (issues over stalls) and a row a unit."""
    rows = _rows(shown)
    strips = min(_MOST_STRIPS, max(1, round(shown.clocks / _STRIP)))
    clocks = max(_TICKS, -(-shown.clocks // strips // _TICKS) * _TICKS)
    height = len(rows) * (_ROW + _GAP) + 24
    parts, top = [], 0
    for begin in range(shown.begin, shown.end, clocks):
        end = min(begin + clocks, shown.end)
        parts.append(_strip(rows, begin, end, (_WIDTH - _LABEL) / clocks, top, shown.begin))
        top += height
    return (f'<svg viewBox="0 0 {_WIDTH} {top}" width="{_WIDTH}" height="{top}" font-size="11" font-family="sans-serif" role="img" '
            f'aria-label="predicted issue timeline">{"".join(parts)}</svg>')


def _strip(rows: Sequence[tuple[str, list[Span]]], begin: int, end: int, scale: float, top: int, zero: int) -> str:
    parts = []
    height = len(rows) * (_ROW + _GAP)
    for clock in range(begin - (begin - zero) % _TICKS, end + 1, _TICKS):
        if clock >= begin:
            x = _LABEL + (clock - begin) * scale
            parts.append(f'<path d="M{x:.1f} {top + 12}v{height}" stroke="#ddd"/>')
            parts += [f'<text x="{x:.1f}" y="{top + 9}" fill="#666" text-anchor="middle">{clock - zero}</text>'] * (x < _WIDTH - 16)
    for number, (label, spans) in enumerate(rows):
        y = top + 14 + number * (_ROW + _GAP)
        parts.append(f'<text x="0" y="{y + 11}">{escape(label)}</text>')
        paths: dict[str, list[str]] = {}
        for first, last, colour in spans:
            low, high = max(first, begin), min(last, end)
            if low < high:
                width = max(0.6, (high - low) * scale - 0.4)
                paths.setdefault(colour, []).append(f"M{_LABEL + (low - begin) * scale:.1f} {y}h{width:.1f}v{_ROW}h-{width:.1f}z")
        parts += [f'<path fill="{colour}" d="{"".join(boxes)}"/>' for colour, boxes in paths.items()]
    return "".join(parts)


def _rows(shown: LoopTimeline) -> list[tuple[str, list[Span]]]:
    """Waves, then units, each with what it does in the round."""
    timeline, program = shown.profile.timeline, shown.profile.program
    rows = [(f"wave {wave.wave} (SIMD {wave.simd})", _wave(shown, wave, program)) for wave in timeline.waves[:_MOST_WAVES]]
    cores: dict[str, list[Span]] = {}
    for wave in timeline.waves:
        for at in _executed(shown, wave):
            cost = timeline.costs[wave.positions[at]]
            if cost.kind is CostKind.MATRIX:
                start = wave.issued[at] + cost.lead
                cores.setdefault(f"matrix core {wave.simd}", []).append((start, start + cost.occupancy, GROUP_COLOURS["matrix"]))
    units: dict[str, list[Span]] = {}
    for unit, position, begin, end in timeline.accesses:
        if begin < shown.end and end > shown.begin:
            instruction = program.instructions[position]
            group = group_of(instruction.opcode, instruction.form)
            busy = max(4, timeline.costs[position].lds_bus or timeline.costs[position].line_floor)
            units.setdefault(unit, []).append((begin, min(end, begin + busy), GROUP_COLOURS[group]))
    return rows + sorted(cores.items()) + sorted(units.items())


def _executed(shown: LoopTimeline, wave: WaveTimes) -> range:
    """Executions that may reach into the round."""
    return range(max(0, bisect_left(wave.issued, shown.begin) - 1), bisect_left(wave.issued, shown.end))


def _wave(shown: LoopTimeline, wave: WaveTimes, program: Program) -> list[Span]:
    spans: list[Span] = [(begin, end, STALL_COLOURS.get(cause, _OTHER_STALL))
                         for _, cause, begin, end in wave.stall_spans(shown.profile.timeline.costs)
                         if end > shown.begin and begin < shown.end]
    for at in _executed(shown, wave):
        instruction, cost = program.instructions[wave.positions[at]], shown.profile.timeline.costs[wave.positions[at]]
        spans.append((wave.issued[at], wave.issued[at] + cost.hold, GROUP_COLOURS[group_of(instruction.opcode, instruction.form)]))
    return spans


def lds_svg(rows: Sequence[LdsRow], size: int) -> str:
    """The bytes of LDS from left to right, a box a range; ranges that meet stand one below the other."""
    whole = max(size, max((row.high for row in rows), default=1))
    ends: list[int] = []
    parts = []
    for row in rows:
        line = next((number for number, end in enumerate(ends) if end <= row.low), len(ends))
        ends[line:line + 1] = [row.high]
        x, width = row.low / whole * _WIDTH, max(1.0, (row.high - row.low) / whole * _WIDTH)
        name = row.name or f"{row.low:#x}"
        text = f'<text x="{x + 4:.1f}" y="{line * 26 + 16}" fill="#fff">{escape(name)}</text>' if width > 7 * len(name) + 8 else ""
        parts.append(f'<g><title>{escape(name)} {row.low:#x}:{row.high:#x}</title><rect x="{x:.1f}" y="{line * 26}" '
                     f'width="{width - 1:.1f}" height="23" fill="{GROUP_COLOURS["lds_dma" if row.fills else "lds_read"]}"/>{text}</g>')
    height = max(1, len(ends)) * 26
    return (f'<svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" font-size="11" font-family="sans-serif" role="img" '
            f'aria-label="map of LDS">{"".join(parts)}</svg>')
