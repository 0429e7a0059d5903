"""What `asmgen explain` finds and prints: a rule, or the instructions of one place."""

from __future__ import annotations

import hashlib
import json
import textwrap
from pathlib import Path
from typing import Any

from asmgen.checks.explain.explain import Explanation, InFlight, counts_text, explain, names_of_rows, region_at
from asmgen.checks.finding.rules import LintRule, rule
from asmgen.files import MOST_TEXT, FileError, read_plain
from asmgen.isa.errors import AsmgenError
from asmgen.program.program import Program
from asmgen.reader.file import read_file

_WIDTH = 100
_SHOWN = 24
_LISTED = 8


def is_instruction(subject: str) -> bool:
    """Whether a subject is FILE:LINE or FILE:0xADDRESS, not a rule."""
    file, _, number = subject.rpartition(":")
    return bool(file) and _number(number) is not None


def _number(text: str) -> int | None:
    try:
        return int(text, 16 if text.lower().startswith("0x") else 10)
    except ValueError:
        return None


def explain_rule(name: str) -> LintRule:
    """The rule of an id. Raises AsmgenError for an unknown one."""
    return rule(name)


def rule_json(found: LintRule) -> dict[str, str]:
    """A rule as JSON."""
    return {"id": found.id, "severity": found.severity, "title": found.title, "text": found.text}


def rule_text(found: LintRule) -> str:
    """A rule as a paragraph."""
    return f"{found.id}: {found.title} ({found.severity})\n\n{textwrap.fill(found.text, _WIDTH)}\n"


def explain_instruction(subject: str, arch: str | None) -> list[Explanation]:
    """The instructions of FILE:LINE or FILE:0xADDRESS. Raises AsmgenError where there is none, with the nearest that there are."""
    name, _, number = subject.rpartition(":")
    wanted = _number(number)
    assert wanted is not None
    by_address = number.lower().startswith("0x")
    path = Path(name)
    read = read_file(path, arch)
    rows = _rows_beside(path)
    found: list[tuple[Program, int]] = []
    known: set[int] = set()
    for program in read.programs:
        for position, instruction in enumerate(program.instructions):
            at = instruction.address if by_address else instruction.source.line if instruction.source is not None else None
            if at is not None:
                known.add(at)
            if at == wanted and _new(found, program, position):
                found.append((program, position))
    if not found:
        raise AsmgenError(_nothing(name, number, sorted(known), by_address))
    return [explain(program, position, names_of_rows(rows.get(program.name, []), region_at(program, position)))
            for program, position in found[:_LISTED]]


def _new(found: list[tuple[Program, int]], program: Program, position: int) -> bool:
    """Whether no other kernel has shown the same instruction (functions stand after each kernel that may call them)."""
    instruction = program.instructions[position]
    return not any(instruction.address is not None and other.instructions[at].address == instruction.address for other, at in found)


def _nothing(name: str, number: str, known: list[int], by_address: bool) -> str:
    what = "address" if by_address else "line"
    if not known:
        return f"the instructions of {name} have no {'addresses; FILE:LINE' if by_address else 'lines; FILE:0xADDRESS'} names them"
    wanted = _number(number) or 0
    near = sorted(sorted(known, key=lambda value: abs(value - wanted))[:3])
    shown = ", ".join(hex(value) if by_address else str(value) for value in near)
    return f"no instruction of {name} stands at {what} {number}; the nearest are at {shown}"


def _rows_beside(path: Path) -> dict[str, list[dict[str, Any]]]:
    """By kernel the register map of the KERNEL.json beside a file, if it describes the code object beside it (or the file itself)."""
    try:
        described = json.loads(read_plain(path.with_suffix(".json"), MOST_TEXT))
        if described["code_object_sha256"] == hashlib.sha256(read_plain(path.with_suffix(".co"))).hexdigest():
            return {str(one["symbol"]): list(one["register_map"]["rows"]) for one in described["launches"]}
    except (FileError, ValueError, KeyError, TypeError, RecursionError):
        pass
    return {}


def explanation_text(found: list[Explanation]) -> str:
    """For people."""
    return "\n".join("".join(f"{line}\n" for line in _lines(one)) for one in found)


def _lines(one: Explanation) -> list[str]:
    lines = [one.text, f"  instruction {one.position} of {one.kernel}" + (f", {one.where}" if one.where else "")]
    if one.passes:
        lines.append(f"  occupies the matrix core for {one.passes} passes")
    lines += _section("operands", [f"{row.slot:8s} {row.text:16s} {row.role:16s} {row.owner}".rstrip() for row in one.operands])
    lines += _section("why it stands here", list(one.why))
    lines += _section("in flight before it", [_flight(entry) for entry in one.in_flight] or ["nothing"])
    if one.waits:
        lines += _section(f"needs s_waitcnt {counts_text(one.waits)} before it", list(one.wait_reasons))
    else:
        lines.append("  needs no further wait")
    if one.wait_states:
        lines += _section(f"needs {one.wait_states} more wait state{'s' * (one.wait_states > 1)}", list(one.state_reasons))
    else:
        lines.append("  needs no further wait states")
    lines += [f"  may stall: {counter} may be full" for counter in one.stalls]
    v, a, s = one.live_count
    lines += _section(f"live before it: {v} VGPRs, {a} AGPRs, {s} SGPRs", textwrap.wrap(", ".join(one.live), _WIDTH - 4))
    return lines


def _flight(entry: InFlight) -> str:
    order = f"{entry.newer} newer" if entry.ordered else "any order"
    where = f" ({entry.where})" if entry.where else ""
    return f"{entry.counter:7s} {order:10s} {entry.text}{where}{f' brings {entry.brings}' if entry.brings else ''}"


def _section(title: str, rows: list[str]) -> list[str]:
    if not rows:
        return []
    more = [f"    and {len(rows) - _SHOWN} more"] if len(rows) > _SHOWN else []
    return [f"  {title}", *(f"    {row}" for row in rows[:_SHOWN]), *more]


def explanations_json(found: list[Explanation]) -> list[dict[str, Any]]:
    """The document of `asmgen explain --json`."""
    return [one.as_json() for one in found]
