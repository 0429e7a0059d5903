"""llvm-objdump's listing: instructions with addresses and encodings, symbols, source lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from asmgen.isa.operands import Operand, SendMsg, Symbol, Waitcnt
from asmgen.program import Instruction, Label, SourceLine
from asmgen.reader.errors import NeedsAssembler, ReadError
from asmgen.reader.instruction import InstructionReader, shorten

_WORD_BYTES = 4
_LONGEST_LINE = 20_000  # characters: symbols of templates are long
_HEADING = re.compile(r"([0-9a-fA-F]{8,16}) <(.*)>:$")
_ENCODED = re.compile(r"[ \t]*([0-9A-Fa-f]{4,16}):((?:[ \t]+[0-9A-Fa-f]{8})+)")
_MAX_DIGITS = 9
_SOURCE = re.compile(r"; (.+):(\d+)(?: \(discriminator \d+\))?$")
_BRANCHES = ("s_branch", "s_cbranch_", "s_call_b64")
_INNER_COMMENT = re.compile(r"/\*.*?\*/")


@dataclass(frozen=True)
class ListingLine:
    """One instruction as printed: its text without comments, its address and its encoding in dwords."""

    text: str
    address: int
    words: tuple[int, ...]
    source: SourceLine | None

    @property
    def size(self) -> int:
        """Bytes."""
        return _WORD_BYTES * len(self.words)

    @property
    def end(self) -> int:
        """The address behind it."""
        return self.address + self.size

    @property
    def mnemonic(self) -> str:
        """The first word."""
        return self.text.partition(" ")[0]

    @property
    def target(self) -> int | None:
        """The address that a branch with a 16-bit displacement in its encoding goes to."""
        if not self.text.startswith(_BRANCHES):
            return None
        displacement = self.words[0] & 0xFFFF
        return self.end + _WORD_BYTES * (displacement - (displacement >> 15 << 16))


@dataclass(frozen=True)
class Listing:
    """Instructions in the order of their addresses, and the symbols that llvm-objdump names, by address."""

    lines: tuple[ListingLine, ...]
    symbols: Mapping[int, str]



def is_listing(text: str) -> bool:
    """Whether text is a listing with addresses: its first instruction has its encoding behind it."""
    for line in text.split("\n", 200)[:200]:
        if line.startswith("\t"):
            return _ENCODED.match(line.rpartition("//")[2]) is not None
    return False


def parse_listing(text: str, name: str = "the listing", piped: str = "") -> Listing:
    """The lines of a listing; `piped` is the name of the source that an assembler read from a pipe, which the listing calls "-".

    Raises ReadError for an instruction without address and encoding, and where addresses do not rise.
    """
    lines: list[ListingLine] = []
    symbols: dict[int, str] = {}
    source: SourceLine | None = None
    sources: dict[str, SourceLine | None] = {}
    after = -1
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > _LONGEST_LINE:
            raise ReadError(f"a line of {len(line)} characters is no line of a listing", f"{name}:{number}")
        if line.startswith("\t"):
            code, mark, comment = line.rpartition("//")
            match = _ENCODED.match(comment) if mark else None
            if match is None:
                raise ReadError(f"`{shorten(line.strip())}` stands in a listing without an address and an encoding", f"{name}:{number}")
            if "/*" in code:
                code = _INNER_COMMENT.sub("", code)
            address = int(match[1], 16)
            if address < after:
                raise ReadError(f"`{shorten(code.strip())}` is at {address:#x}, before {after:#x} where the instruction above ends",
                                f"{name}:{number}")
            words = tuple([int(word, 16) for word in match[2].split()])
            after = address + _WORD_BYTES * len(words)
            lines.append(ListingLine(code.strip(), address, words, source))
        elif line.startswith("; "):
            if line not in sources:
                sources[line] = _source(line, piped)
            source = sources[line] or source
        elif line.endswith(">:"):
            heading = _HEADING.match(line)
            if heading is not None:
                symbols[int(heading[1], 16)] = heading[2]
                source = None
    return Listing(tuple(lines), symbols)


def _source(line: str, piped: str) -> SourceLine | None:
    match = _SOURCE.match(line)
    if match is None or len(match[2]) > _MAX_DIGITS:
        return None
    return SourceLine(piped if piped and match[1].rpartition("/")[2] == "-" else match[1], int(match[2]))


class ListingReader:
    """Makes Instructions of listing lines; `origin` names the code object in errors, `label` the branch targets."""

    def __init__(self, arch: str, origin: str) -> None:
        self._reader = InstructionReader(arch)
        self.origin = origin

    def read(self, lines: Sequence[ListingLine], labels: Mapping[int, str]) -> Iterator[Instruction | Label]:
        """The instructions, each label before the one at its address; branches to an address without a label keep their number.

        Raises ReadError for an unknown instruction and for data.
        """
        for line in lines:
            if line.address in labels:
                yield Label(labels[line.address], line.source)
            yield self._instruction(line, labels)

    def _instruction(self, line: ListingLine, labels: Mapping[int, str]) -> Instruction:
        where = f"{self.origin} at address {line.address:#x}"
        if line.source is not None:
            where = f"{line.source} ({where})"
        if line.text.startswith("."):
            encoding = " ".join(f"{word:08X}" for word in line.words)
            raise ReadError(f"{encoding} is no instruction of {self._reader.arch}: data between instructions cannot be read", where)
        try:
            opcode, form, operands, modifiers, suffix = self._reader.parts(line.text, where)
        except NeedsAssembler as error:
            raise ReadError(error.sentence, where) from None
        if opcode.encoding in ("SOPP", "SOPK"):
            operands = self._exact(line, operands, form.operands[-1].accepts if form.operands else "", labels)
        modifiers = dict(modifiers)
        if opcode.name == "ds_swizzle_b32" and modifiers.get("offset", 0) != line.words[0] & 0xFFFF:
            modifiers["offset"] = line.words[0] & 0xFFFF
        return Instruction(opcode, form, operands, modifiers, suffix, line.source, address=line.address, size=line.size)

    @staticmethod
    def _exact(line: ListingLine, operands: tuple[Operand, ...], accepts: str, labels: Mapping[int, str]) -> tuple[Operand, ...]:
        """Branch targets as labels; and numbers where the words that llvm-objdump prints would encode otherwise."""
        if "b" in accepts:
            label = labels.get(line.target) if line.target is not None else None
            return (*operands[:-1], Symbol(label) if label is not None else line.words[0] & 0xFFFF)
        last = operands[-1] if operands else None
        if isinstance(last, Waitcnt | SendMsg) and last.simm16 != line.words[0] & 0xFFFF:
            return (*operands[:-1], line.words[0] & 0xFFFF)
        return operands
