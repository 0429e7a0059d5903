"""llvm-objdump's listing: instructions with addresses and encodings, symbols, source lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from asmgen.isa.errors import AsmgenError
from asmgen.isa.operands import SendMsg, Symbol, Waitcnt
from asmgen.isa.quote import shorten
from asmgen.program.program import Instruction, Label, SourceLine
from asmgen.reader.errors import ReadError
from asmgen.reader.instruction import instruction_reader

_WORD_BYTES = 4
_LONGEST_LINE = 20_000  # characters: symbols of templates are long
_HEADING = re.compile(r"([0-9a-fA-F]{8,16}) <(.*)>:$")
_ENCODED = re.compile(r"[ \t]*([0-9A-Fa-f]{4,16}):((?:[ \t]+[0-9A-Fa-f]{8})+)")
# What most lines are: no comment within, one or two words, nothing after them but a symbol. The last group has any other line.
_LINE = re.compile(r"^(?:\t([^/\n]+)//[ \t]*([0-9A-Fa-f]{4,16}):[ \t]+([0-9A-Fa-f]{8})(?:[ \t]+([0-9A-Fa-f]{8}))?(?:$| <.*)|(.*))",
                   re.MULTILINE)
_PIECE = 1 << 20  # characters of a listing that are matched at a time
_MAX_DIGITS = 9
_SOURCE = re.compile(r"; (.+):(\d+)(?: \(discriminator \d+\))?$")
_EXACT = frozenset({"SOPP", "SOPK"})
_BRANCHES = ("s_branch", "s_cbranch_", "s_call_b64")
_INNER_COMMENT = re.compile(r"/\*.*?\*/")


class ListingLine(NamedTuple):
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
        """The address after it."""
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


def jumps(lines: Sequence[ListingLine]) -> list[ListingLine]:
    """The branches with a displacement."""
    return [line for line in lines if line.text.startswith(_BRANCHES)]


def is_listing(text: str) -> bool:
    """Whether text is a listing with addresses: its first instruction has its encoding after it."""
    for line in text.split("\n", 200)[:200]:
        if line.startswith("\t"):
            return _ENCODED.match(line.rpartition("//")[2]) is not None
    return False


def parse_listing(text: str, name: str = "the listing", piped: str = "") -> Listing:
    """The lines of a listing; `piped` is the name of the source that an assembler read from a pipe, which the listing calls "-".

    Raises ReadError for an instruction without address and encoding, and where addresses do not rise.
    """
    lines: list[ListingLine] = []
    words: tuple[int, ...]
    symbols: dict[int, str] = {}
    source: SourceLine | None = None
    sources: dict[str, SourceLine | None] = {}
    after = -1
    encodings: dict[str, tuple[int, ...]] = {}  # of one and of two words: most stand in a listing many times
    new = tuple.__new__  # what ListingLine(...) comes to, without a Python function for each of thousands
    for number, (code, at, first, second, line) in enumerate(_lines(text, name), 1):
        if not line:
            if not code:
                continue
            code = code.strip()
            address = int(at, 16)
            encoding = first + second
            known = encodings.get(encoding)
            if known is None:
                known = encodings[encoding] = (int(first, 16), int(second, 16)) if second else (int(first, 16),)
            words = known
        elif line.startswith("\t"):
            code, mark, comment = line.rpartition("//")
            match = _ENCODED.match(comment) if mark else None
            if match is None:
                raise ReadError(f"`{shorten(line.strip())}` stands in a listing without an address and an encoding", f"{name}:{number}")
            if "/*" in code:
                code = _INNER_COMMENT.sub("", code)
            code = code.strip()
            address = int(match[1], 16)
            words = tuple([int(word, 16) for word in match[2].split()])
        elif line.startswith("; "):
            if line not in sources:
                sources[line] = _source(line, piped)
            source = sources[line] or source
            continue
        elif line.endswith(">:"):
            heading = _HEADING.match(line)
            if heading is not None:
                symbols[int(heading[1], 16)] = heading[2]
                source = None
            continue
        else:
            continue
        if address < after:
            raise ReadError(f"`{shorten(code)}` is at {address:#x}, before {after:#x} where the instruction above ends", f"{name}:{number}")
        after = address + _WORD_BYTES * len(words)
        lines.append(new(ListingLine, (code, address, words, source)))
    return Listing(tuple(lines), symbols)


def _lines(text: str, name: str) -> Iterator[tuple[str, str, str, str, str]]:
    """The groups of each line. Raises ReadError for one that is too long."""
    lengths = [len(line) for line in text.split("\n")]
    if (longest := max(lengths)) > _LONGEST_LINE:
        raise ReadError(f"a line of {longest} characters is no line of a listing", f"{name}:{lengths.index(longest) + 1}")
    start = 0
    while start <= len(text):
        end = text.find("\n", start + _PIECE)
        end = end if end >= 0 else len(text)
        yield from _LINE.findall(text, start, end)
        start = end + 1


def _source(line: str, piped: str) -> SourceLine | None:
    match = _SOURCE.match(line)
    if match is None or len(match[2]) > _MAX_DIGITS:
        return None
    return SourceLine(piped if piped and match[1].rpartition("/")[2] == "-" else match[1], int(match[2]))


class ListingReader:
    """Makes Instructions of listing lines; `origin` names the code object in errors, `label` the branch targets."""

    def __init__(self, arch: str, origin: str) -> None:
        self._reader = instruction_reader(arch)
        self.origin = origin

    def read(self, lines: Sequence[ListingLine], labels: Mapping[int, str]) -> Iterator[Instruction | Label]:
        """The instructions, each label before the one at its address; branches to an address without a label keep their number.

        Raises ReadError for an unknown instruction and for data.
        """
        texts, plain = self._reader.texts, self._reader.plain
        for line in lines:
            text, address, words, source = line
            if address in labels:
                yield Label(labels[address], source)
            found = texts.get(text)
            if found is None:
                try:
                    found = plain(text)
                except AsmgenError:
                    raise self._fault(line) from None
            opcode = found.opcode
            if opcode.encoding in _EXACT or opcode.name == "ds_swizzle_b32":
                found = self._exact(line, found, labels)
            yield found.placed(source, address, _WORD_BYTES * len(words))

    def _fault(self, line: ListingLine) -> ReadError:
        """Why a line is no instruction."""
        where = f"{self.origin} at address {line.address:#x}"
        if line.source is not None:
            where = f"{line.source} ({where})"
        if line.text.startswith("."):
            encoding = " ".join(f"{word:08X}" for word in line.words)
            return ReadError(f"{encoding} is no instruction of {self._reader.arch}: data between instructions cannot be read", where)
        try:
            self._reader.parts(line.text, where)
        except ReadError as error:
            return ReadError(error.sentence, where)
        raise AssertionError(f"{line.text} is read at {where}, but was not before")

    @staticmethod
    def _exact(line: ListingLine, instruction: Instruction, labels: Mapping[int, str]) -> Instruction:
        """With branch targets as labels; and with numbers where the words that llvm-objdump prints would encode otherwise."""
        number, operands = line.words[0] & 0xFFFF, instruction.operands
        if instruction.opcode.name == "ds_swizzle_b32":
            if instruction.modifiers.get("offset", 0) == number:
                return instruction
            return replace(instruction, modifiers={**instruction.modifiers, "offset": number})
        last = operands[-1] if operands else None
        if operands and "b" in instruction.form.operands[-1].accepts:
            label = labels.get(line.target) if line.target is not None else None
            return replace(instruction, operands=(*operands[:-1], Symbol(label) if label is not None else number))
        if isinstance(last, Waitcnt | SendMsg) and last.simm16 != number:
            return replace(instruction, operands=(*operands[:-1], number))
        return instruction
