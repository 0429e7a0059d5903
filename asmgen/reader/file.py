"""Any file with kernels in it: a code object, an offload bundle, assembly text, a listing."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from asmgen.codeobject.bundle import is_bundle
from asmgen.codeobject.load import CodeObject
from asmgen.files import MOST_BYTES, MOST_TEXT, FileError, first_bytes, read_plain
from asmgen.isa.errors import AsmgenError
from asmgen.isa.quote import shorten
from asmgen.program.program import Program
from asmgen.reader.assembly import check_characters, choose_arch, kernel_names, read_text
from asmgen.reader.calledfunctions import with_called
from asmgen.reader.disassembly import read_programs
from asmgen.reader.errors import NeedsAssembler, ReadError, UnknownSpelling
from asmgen.reader.inclusion import Inclusion
from asmgen.reader.instruction import InstructionReader
from asmgen.reader.limits import Limited
from asmgen.reader.statements import statements
from asmgen.toolchain import AssemblyError, ToolError, assemble

_MADE_BYTES = 1 << 18
"""Of code that any text may make (64,000 instructions, seconds of lint, four times the instruction cache); for each byte of the text:"""
_TIMES = 16
_ELF = b"\x7fELF"
_OWN_LINES = re.compile(r"^\s*\.loc\s", re.MULTILINE)
_KILLED = re.compile(r"failed on .* with status (?:-|1[3-9]\d|\d+: LLVM ERROR: out of memory)")  # by a signal, or told by the shell


@dataclass(frozen=True)
class ReadResult:
    """What a file holds; `code_object` is None where text was read without an assembler's help."""

    arch: str
    programs: tuple[Program, ...]
    code_object: CodeObject | None


def read_file(path: str | Path, arch: str | None = None) -> ReadResult:
    """The Programs of a file, one a kernel with the functions that it calls (of text, also one a function that no kernel calls).

    Text that computes (macros, .rept, .set, expressions) or spells an instruction as the reader does not know goes through clang with
    line information, so that instructions name the lines of this file. Raises AsmgenError, one sentence, for a file that cannot be read,
    for an unknown instruction, and for a text without .amdgcn_target where no `arch` is given.
    """
    name = str(path)
    try:
        head = first_bytes(Path(path))
        binary = head.startswith(_ELF) or is_bundle(head)
        data = read_plain(Path(path), MOST_BYTES if binary else MOST_TEXT)
    except FileError as error:
        raise ReadError(error.sentence) from None
    if binary:
        return read_code_object(CodeObject.load(data, arch, name))
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ReadError(f"neither a code object nor text in UTF-8 (byte {error.start} is {data[error.start]:#04x})", name) from None
    try:
        programs = with_called(read_text(text, arch, Path(path).stem, name), kernel_names(text))
    except NeedsAssembler:
        return _through_clang(text, arch, Path(path))
    except UnknownSpelling as unknown:
        try:
            return _through_clang(text, arch, Path(path))
        except ToolError:
            raise unknown from None
    if not programs:
        raise ReadError("it holds no instruction", name)
    return ReadResult(programs[0].arch, tuple(programs), None)


def read_code_object(code_object: CodeObject, piped: str = "") -> ReadResult:
    """The Programs of a loaded code object: its kernels, or its functions where it has none. Raises AsmgenError as `read_file` does.

    `piped` is the name of the source where the code object was assembled from a pipe.
    """
    programs = tuple(read_programs(code_object, piped))
    if not programs:
        raise ReadError("it holds no code", code_object.origin)
    return ReadResult(code_object.arch, programs, code_object)


def _through_clang(text: str, arch: str | None, path: Path) -> ReadResult:
    """Assembled, linked and read back, with the lines of the text as sources."""
    name = str(path)
    check_characters(text, name)
    target = choose_arch(text, arch, name)
    whole = Inclusion(path).text(text)
    if whole != text:
        whole = f'# 1 "-"\n{whole}'  # the first marker names the main file
    # clang refuses to make line information for a text that brings its own.
    lines = () if _OWN_LINES.search(whole) else ("-g",)
    limits = Limited.for_text(len(whole))
    try:
        data = assemble(whole, target, limits.toolchain(), extra=[*lines, "-I", str(path.parent)], name=name, bounds=limits.bounds)
    except AssemblyError as error:
        raise _explained(text, target, name, error, limits) from None
    code_object = replace(CodeObject.load(data), origin=name)
    size = sum(len(segment.data) for segment in code_object.image if segment.executable)
    if size > _MADE_BYTES + _TIMES * len(whole):
        raise ReadError(f"its {len(whole)} bytes of text make {size} bytes of code, too many to read one by one: repeat less", name)
    found = read_code_object(code_object, name)
    first, *others = found.programs
    return replace(found, programs=(replace(first, name=first.name or path.stem), *others))


def _explained(text: str, target: str, name: str, error: AssemblyError, limits: Limited) -> AsmgenError:
    """asmgen's own error where it refuses the instruction too, as it names the nearest mnemonics; else clang's, with the line."""
    if _KILLED.search(error.sentence):
        return ReadError(f"clang was stopped: it was still busy after {limits.seconds} s, or took more than {limits.kilobytes >> 10} MB, "
                         "as with what does not come to an end", name)
    number = error.where.rpartition(":")[2]
    lines = text.split("\n")
    if not number.isdigit() or not 0 < int(number) <= len(lines):
        return error
    line = lines[int(number) - 1]
    for statement in statements(line, error.where):
        if statement.code and not statement.code.startswith(".") and "=" not in statement.code:
            try:
                InstructionReader(target.partition(":")[0]).read(statement.code, error.where)
            except NeedsAssembler:
                break
            except ReadError as own:
                return own
    head, _, message = error.sentence.partition("`: ")
    return AssemblyError(f"{head.partition('`')[0]}`{shorten(line.strip())}`: {message}", error.where) if message else error
