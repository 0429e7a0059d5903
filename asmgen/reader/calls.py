"""Where indirect calls go: the addresses that code computes from its own position."""

from __future__ import annotations

import re
from collections.abc import Iterable

from asmgen.reader.listing import ListingLine

_PAIR = re.compile(r"s\[(\d+):(\d+)\]")
_ADD = re.compile(r"s(\d+), s(\d+), (?:lit\()?(-?(?:0x[0-9a-f]+|\d+))\)?$")
_LOW = (1 << 32) - 1


def call_targets(lines: Iterable[ListingLine]) -> tuple[set[int], bool]:
    """Addresses that the code makes with s_getpc, s_add and s_addc, and whether an s_swappc goes to one that it does not make so.

    An s_setpc to an unknown address is a return: what it returns to is in the code that called.
    """
    known: dict[int, int] = {}
    made: set[int] = set()
    unknown = False
    for line in lines:
        name, _, rest = line.text.partition(" ")
        if name == "s_getpc_b64":
            pair = _PAIR.match(rest)
            if pair is not None:
                known[int(pair[1])] = line.end
        elif name in ("s_add_u32", "s_addc_u32"):
            _add(name, rest, known)
        elif name in ("s_swappc_b64", "s_setpc_b64"):
            pair = _PAIR.match(rest.rpartition(", ")[2])
            target = known.get(int(pair[1])) if pair is not None else None
            if target is not None:
                made.add(target)
            elif name == "s_swappc_b64":
                unknown = True
        elif name == "s_mov_b64" and rest.startswith("s["):
            destination, source = (_PAIR.match(part) for part in (*rest.split(", "), "")[:2])
            if destination is not None:
                value = known.get(int(source[1])) if source is not None else None
                known.pop(int(destination[1]), None)
                if value is not None:
                    known[int(destination[1])] = value
        elif rest.startswith("s[") or rest.startswith("s"):
            _forget(rest, known)
    return made, unknown


def _add(name: str, rest: str, known: dict[int, int]) -> None:
    match = _ADD.match(rest)
    if match is None:
        _forget(rest, known)
        return
    destination, source, constant = int(match[1]), int(match[2]), int(match[3], 0) & _LOW
    # The two halves are added one after the other; what s_add makes is exact only together with s_addc.
    first = source if name == "s_add_u32" else source - 1
    if destination != source or first not in known:
        _forget(rest, known)
        return
    known[first] = known[first] + (constant if name == "s_add_u32" else constant << 32) & (1 << 64) - 1


def _forget(rest: str, known: dict[int, int]) -> None:
    """Registers that an instruction overwrites hold no known address any more."""
    match = re.match(r"s\[?(\d+)(?::(\d+)\])?", rest)
    if match is None:
        return
    first = int(match[1])
    last = int(match[2]) if match[2] else first
    for register in range(first - 1, last + 1):
        known.pop(register, None)
