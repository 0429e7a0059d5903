# ruff: noqa: E501  # the lists of damage are long, and one entry a line would be longer
"""Damage: to assembly text, to the parts of an ELF file, to JSON. Everything is drawn from the generator that is given."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Mapping
from typing import Any

import msgpack
from elftools.elf.elffile import ELFFile

from asmgen.codeobject.metadata import find_note
from tests.fuzz.reader import damaged_text

TEXTS = (
    ".rept 300\n.rept 300\nv_mov_b32 v0, v1\n.endr\n.endr\n", ".rept 5000\ns_nop 0\n.endr\n", ".macro m a\nm \\a\n.endm\nm 1\n",
    ".macro m n\n.if \\n\nm \\n-1\nm \\n-1\n.endif\n.endm\nm 12\n", '.incbin "/dev/zero"\n', '.incbin "/dev/full"\n', '.include "k.s"\n',
    '.INCLUDE "/dev/zero"\n', ".macro z f\n.incbin \"\\f\"\n.endm\nz /dev/zero\n", ".fill 900000, 8, 1\n", ".set x, x + 1\n", ".org 0x7fffffff\n",
    ".irp r,1,2,3\nv_mov_b32 v\\r, 0\n.endr\n", "v_mov_b32 v0, " + "(" * 2000 + "1" + ")" * 2000 + "\n", "s_branch " + "1+" * 3000 + "1\n",
    "s_mov_b32 s0, " + "9" * 5000 + "\n", "x" * 100_000 + ":\n", ".amdhsa_next_free_vgpr 99999999999999999999\n", "\u202e\u0661\u0662\n",
    "v_mov_b32 v\u0661, 0\n", ".p2align 31\n", ".quad 1, 2\n", ".if 1\n" * 200, ".section .text, \"ax\", @nobits\n.zero 900000\n",
    "s_branch .\n", "s_setpc_b64 s[0:1]\n", "s_cbranch_scc0 sample\n", ".size sample, 1<<60\n", ".ascii \"" + "a" * 70000 + "\"\n", "1: s_branch 1b\n",
)
_NUMBERS = (0, 1, 2, 7, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 32, 1 << 40, (1 << 63) - 1,
            1 << 63, (1 << 64) - 1)
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 7, 64, 65, 1024, 4096, 1 << 16, 1 << 20, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40, 1 << 63, 1 << 64, 10**30, 1.5, -0.0,
    1e300, float("nan"), float("inf"), "", "x", "k.co", "spec.json", "./k.co", "../{folder}/k.co", "a.npy", "a.bin", "link.bin", "hard.bin", "/dev/zero",
    "/dev/full", "/dev/null", "/dev/stdin", "pipe", ".", "..", "/", "/proc/self/mem", "/proc/kcore", "absent/o.bin", "\ud800", "\0", "\n", "\u202e",
    "a" * 300, "a" * 100_000, "random:" + "9" * 5000, "random:3", "serial", "lockstep", "emulator", "f32", "bf16", "f64", "u8", "zz", [], {}, [[]], [1, 1, 1],
    [1 << 31, 1, 1], [3, 2, 1], [0, 1, 1], {"zeros": 1 << 34}, {"zeros": 16, "save": "n.bin"}, {"buffer": "a.npy", "save": "k.co"}, {"same_as": 0, "at": 1 << 39},
    {"bytes": "00"}, {"bytes": "0" * 2_000_000}, {"scalar": "f32", "value": 10**400}, {"scalar": "u64", "value": -1}, {"buffer": "/dev/zero"},
    {"buffer": "bad.npy"}, {"buffer": "huge.npy"}, {"buffer": "objects.npy"}, {"buffer": "sparse.bin"}, ["lds-race"], ["nonsense"], "gfx942", "gfx950:xnack+",
)
KEYS = ("code_object", "kernel", "arch", "grid", "block", "dynamic_lds", "args", "order", "checks", "offset", "save", "buffer", "zeros", "scalar", "value",
        "same_as", "at", "bytes", "extra")


def damaged_assembly(rng: random.Random, text: str) -> bytes:
    """Text with some damage, or with something put in that an assembler computes."""
    if rng.random() < 0.5:
        lines = text.split("\n")
        for _ in range(rng.choice((1, 1, 2))):
            lines.insert(rng.randrange(len(lines) + 1), rng.choice(TEXTS))
        text = "\n".join(lines)
        if rng.random() < 0.7:
            return text.encode("utf-8", "surrogatepass")
    data = damaged_text(rng, text).encode("utf-8", "surrogatepass")
    if rng.random() < 0.05:
        at = rng.randrange(len(data) + 1)
        data = data[:at] + rng.randbytes(rng.choice((1, 8, 300))) + data[at:]
    return data


def parts_of(data: bytes) -> dict[str, tuple[int, int]]:
    """Offset and size of the parts of an ELF file: its header, its two tables, each section."""
    elf = ELFFile(io.BytesIO(data))
    header = elf.header
    parts = {"header": (0, 64), "program headers": (header.e_phoff, header.e_phnum * header.e_phentsize),
             "section headers": (header.e_shoff, header.e_shnum * header.e_shentsize)}
    for section in elf.iter_sections():
        if section["sh_type"] != "SHT_NOBITS" and section["sh_size"]:
            parts[section.name] = section["sh_offset"], section["sh_size"]
    return parts


def damaged_object(rng: random.Random, data: bytes, parts: Mapping[str, tuple[int, int]]) -> bytes:
    """A code object with damage to some of its parts, cut off, or with other metadata."""
    action = rng.randrange(12)
    if action == 0:
        return data[:rng.randrange(len(data))]
    if action == 1:
        at = rng.randrange(len(data))
        return data[:at] + rng.randbytes(rng.randrange(200)) + data[at + rng.randrange(200):]
    if action <= 4:
        return _other_metadata(rng, data, parts)
    changed = bytearray(data)
    names = sorted(parts)
    for _ in range(rng.choice((1, 1, 2, 4, 20))):
        start, size = parts[rng.choice(names)]
        at = start + rng.randrange(size)
        kind = rng.randrange(3)
        if kind == 0:
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            width = rng.choice((1, 2, 4, 8))
            at -= (at - start) % width
            value = rng.choice(_NUMBERS) & (1 << 8 * width) - 1
            changed[at:at + width] = value.to_bytes(width, "little")
        else:
            source = rng.randrange(len(data) - 8)
            changed[at:at + 8] = data[source:source + 8]
    return bytes(changed[:len(data)])


def _other_metadata(rng: random.Random, data: bytes, parts: Mapping[str, tuple[int, int]]) -> bytes:
    """The metadata note decoded, damaged, and packed again where it fits into its place."""
    start, size = parts[".note"]
    note = find_note(data[start:start + size])
    assert note is not None
    root = damaged_json(rng, msgpack.unpackb(note, raw=False, strict_map_key=False))
    try:
        packed = msgpack.packb(root, unicode_errors="surrogatepass")
    except (OverflowError, ValueError, TypeError):
        return data
    at = data.index(note, start)
    if len(packed) > len(note):
        packed = packed[:len(note)]
    return data[:at] + packed + b"\0" * (len(note) - len(packed)) + data[at + len(note):]


def damaged_json(rng: random.Random, value: Any) -> Any:
    """A value with some of what is in it replaced, left out, doubled or nested."""
    value = json.loads(json.dumps(value))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = list(_places(value))
        if not places:
            return rng.choice(VALUES)
        put, container, key = rng.choice(places)
        action = rng.randrange(8)
        if action <= 3:
            put(rng.choice(VALUES))
        elif action == 4:
            del container[key]
        elif action == 5 and isinstance(container, dict):
            container[rng.choice(KEYS)] = rng.choice(VALUES)
        elif action == 5:
            container.insert(rng.randrange(len(container) + 1), rng.choice(VALUES))
        elif action == 6 and isinstance(container[key], int):
            put(container[key] * rng.choice((-1, 2, 1000, 1 << 20)) + rng.choice((-1, 0, 1)))
        else:
            nested: Any = container[key]
            for _ in range(rng.choice((1, 2, 50, 200))):
                nested = [nested]
            put(nested)
    return value


def _places(value: Any) -> list[tuple[Callable[[Any], None], Any, Any]]:
    found: list[tuple[Callable[[Any], None], Any, Any]] = []
    keys: Any = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        found.append((lambda new, key=key: value.__setitem__(key, new), value, key))
        found += _places(value[key])
    return found


def damaged_spec(rng: random.Random, spec: dict[str, Any]) -> bytes:
    """The text of a damaged specification."""
    text = json.dumps(damaged_json(rng, spec))
    action = rng.randrange(12)
    if action == 0:
        text = damaged_text(rng, text)
    elif action == 1:
        text = text.replace(rng.choice(("1", "2", "64", "4096")), rng.choice(("9" * 5000, "1e999999", "-0", "1E5", "NaN")), 1)
    elif action == 2:
        text = "[" * rng.choice((10, 3000, 200_000)) + text
    return text.encode("utf-8", "surrogatepass")
