"""Any file with kernels in it: a code object, an offload bundle, assembly text, a listing."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from asmgen.codeobject.bundle import is_bundle
from asmgen.codeobject.load import CodeObject
from asmgen.isa.errors import AsmgenError
from asmgen.program import Program
from asmgen.reader.codeobject import read_programs
from asmgen.reader.errors import NeedsAssembler, ReadError, UnknownSpelling
from asmgen.reader.instruction import InstructionReader, shorten
from asmgen.reader.limits import CLANG_SECONDS, limited_toolchain
from asmgen.reader.statements import statements
from asmgen.reader.text import check_characters, choose_arch, read_text
from asmgen.toolchain import AssemblyError, ToolError, assemble

MOST_REPEATED = 1_000_000
"""The most of anything that a line of text may ask an assembler to make."""

_ELF = b"\x7fELF"
_OWN_LINES = re.compile(r"^\s*\.loc\s", re.MULTILINE)
_INCLUDE = re.compile(r'\s*\.include\s+"([^"\n]+)"')
_MANY = re.compile(r"\s*\.(?:rept|fill|space|skip|zero|org|p2align\w*|align|balign\w*)\s+(?:0x[0-9a-fA-F]{6,}|[0-9]{7,})")
_KILLED = re.compile(r"failed on .* with status (?:-|1[3-9]\d)")  # by a signal, alone or told by the shell
_DEEPEST = 20
_MOST_BYTES = 16 << 20


@dataclass(frozen=True)
class ReadResult:
    """What a file holds; `code_object` is None where text was read without an assembler's help."""

    arch: str
    programs: tuple[Program, ...]
    code_object: CodeObject | None


def read_file(path: str | Path, arch: str | None = None) -> ReadResult:
    """The Programs of a file, one a kernel (of text, also one a function).

    Text that computes (macros, .rept, .set, expressions) or spells an instruction as the reader does not know goes through clang with
    line information, so that instructions name the lines of this file. Raises AsmgenError, one sentence, for a file that cannot be read,
    for an unknown instruction, and for a text without .amdgcn_target where no `arch` is given.
    """
    name = str(path)
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise ReadError(f"{name!r} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if data.startswith(_ELF) or is_bundle(data):
        return read_code_object(CodeObject.load(Path(path), arch))
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ReadError(f"neither a code object nor text in UTF-8 (byte {error.start} is {data[error.start]:#04x})", name) from None
    try:
        programs = read_text(text, arch, Path(path).stem, name)
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
    whole = _included(text, path, 0)
    if whole != text:
        whole = f'# 1 "-"\n{whole}'  # the first marker names the main file
    # clang refuses to make line information for a text that brings its own.
    lines = () if _OWN_LINES.search(whole) else ("-g",)
    try:
        data = assemble(whole, target, limited_toolchain(), extra=[*lines, "-I", str(path.parent)], name=name)
    except AssemblyError as error:
        raise _explained(text, target, name, error) from None
    found = read_code_object(replace(CodeObject.load(data), origin=name), name)
    first, *others = found.programs
    return replace(found, programs=(replace(first, name=first.name or path.stem), *others))


def _included(text: str, path: Path, depth: int) -> str:
    """The text with included files put in between the markers of a preprocessor: clang's own .include loses the file of a line.

    Raises ReadError for a repetition so long, or files so deep in each other, that clang would not come to an end.
    """
    lines = text.split("\n")
    for position, line in enumerate(lines):
        where = f"{path}:{position + 1}"
        many = _MANY.match(line)
        if many is not None:
            raise ReadError(f"`{line.strip()[:80]}` makes more than {MOST_REPEATED} of something", where)
        match = _INCLUDE.match(line)
        if match is None:
            continue
        file = path.parent / match[1]
        if not file.exists():
            continue  # clang says so, unless the line is in an .if that does not hold
        if depth == _DEEPEST or not file.is_file() or file.stat().st_size > _MOST_BYTES:
            raise ReadError(f"{match[1]!r} cannot be included: it is no plain file, is larger than {_MOST_BYTES >> 20} MB or includes "
                            "itself", where)
        inner = _included(file.read_text(encoding="utf-8", errors="replace"), file, depth + 1)
        lines[position] = f'# 1 "{file}"\n{inner}\n# {position + 2} "{path if depth else "-"}"'
    return "\n".join(lines)


def _explained(text: str, target: str, name: str, error: AssemblyError) -> AsmgenError:
    """asmgen's own error where it refuses the instruction too, as it names the nearest mnemonics; else clang's, with the line."""
    if _KILLED.search(error.sentence):
        return ReadError(f"clang was still busy with it after {CLANG_SECONDS} s, or took all memory: it does not come to an end", name)
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
