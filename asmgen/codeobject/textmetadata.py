"""The .amdgpu_metadata blocks of assembly text: the part of YAML that assemblers and kernel authors write there.

Mappings and lists in block form, flow lists of numbers, numbers, booleans, plain and quoted text. What is written in any other way is
passed over: who needs every case assembles the file and reads its note.
"""

from __future__ import annotations

import re
from typing import Any

_BLOCK = re.compile(r"^\s*\.amdgpu_metadata\s*$(.*?)^\s*\.end_amdgpu_metadata", re.MULTILINE | re.DOTALL)
_KEY = re.compile(r"([\w.]+)\s*:(?:\s+(.*))?$")
_NUMBER = re.compile(r"-?\d{1,19}$|0x[0-9a-fA-F]{1,16}$")
_TAG = re.compile(r"!!?str\s+(?=['\"])")
_DEEPEST = 16

_Line = tuple[int, str]  # indentation and text


def text_metadata(text: str) -> dict[str, dict[str, Any]]:
    """The kernels that a text describes: name -> the mapping of `amdhsa.kernels`, as `metadata.kernel_rows` has them."""
    found: dict[str, dict[str, Any]] = {}
    for match in _BLOCK.finditer(text):
        lines = [(len(line) - len(line.lstrip()), line.strip()) for line in match[1].expandtabs().splitlines()
                 if line.strip() and not line.lstrip().startswith(("---", "...", "#"))]
        root, _ = _value(lines, 0, 0)
        rows = root.get("amdhsa.kernels") if isinstance(root, dict) else None
        for row in rows if isinstance(rows, list) else ():
            if isinstance(row, dict) and isinstance(row.get(".name"), str):
                found[row[".name"]] = row
    return found


def _value(lines: list[_Line], at: int, depth: int) -> tuple[Any, int]:
    """The mapping or list whose first line is `at`, and the first line after it."""
    if at >= len(lines) or depth > _DEEPEST:
        return None, len(lines)
    return _list(lines, at, depth) if lines[at][1].startswith("-") else _mapping(lines, at, depth)


def _list(lines: list[_Line], at: int, depth: int) -> tuple[list[Any], int]:
    indent, found = lines[at][0], []
    while at < len(lines) and lines[at][0] == indent and lines[at][1].startswith("-"):
        rest = lines[at][1][1:]
        inner = rest.strip()
        if _KEY.match(inner):
            lines[at] = (indent + 1 + len(rest) - len(rest.lstrip()), inner)  # the mapping begins on this line
            entry, at = _mapping(lines, at, depth + 1)
        else:
            entry, at = _scalar(inner), at + 1
        found.append(entry)
    return found, at


def _mapping(lines: list[_Line], at: int, depth: int) -> tuple[dict[str, Any], int]:
    indent, found = lines[at][0], {}
    while at < len(lines) and lines[at][0] >= indent:
        match = _KEY.match(lines[at][1])
        if lines[at][0] > indent or match is None:
            if lines[at][1].startswith("-") and lines[at][0] == indent:
                break
            at += 1
            continue
        key, rest = match[1], match[2]
        at += 1
        if rest:
            found[key] = _scalar(rest)
        elif at < len(lines) and (lines[at][0] > indent or lines[at][0] == indent and lines[at][1].startswith("-")):
            found[key], at = _value(lines, at, depth + 1)
    return found, at


def _scalar(text: str) -> Any:
    # A tag for names that YAML would take for numbers (`!str '_04'`): quoted text is text anyway.
    text = _TAG.sub("", text)
    if text[:1] not in "'\"":
        text = text.split(" #")[0].rstrip()
    if text.startswith("[") and text.endswith("]"):
        return [_scalar(part.strip()) for part in text[1:-1].split(",") if part.strip()]
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if _NUMBER.match(text):
        return int(text, 0) if not text.lstrip("-").startswith("0") or text.startswith("0x") else int(text)
    return {"true": True, "false": False}.get(text, text)
