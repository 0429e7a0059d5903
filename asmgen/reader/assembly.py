"""Assembly text to Programs: asmgen's own output, clang's -S output, plain hand-written code, llvm-objdump's listings.

What computes (macros, repetition, symbols with values) is not read here but reported as NeedsAssembler: asmgen.reader.file gives such
text to clang first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from asmgen.isa.arch import ARCHITECTURES, PRELOAD_ENTRY
from asmgen.isa.operands import Symbol
from asmgen.isa.quote import shorten
from asmgen.isa.registers import VGPR_COUNT
from asmgen.program.program import Align, Instruction, Item, Label, Program, Region, SourceLine, TokenUse
from asmgen.reader.errors import NeedsAssembler, ReadError
from asmgen.reader.instruction import InstructionReader
from asmgen.reader.listing import is_listing
from asmgen.reader.pieces import listing_programs
from asmgen.reader.statements import Statement, statements

_TARGET = re.compile(r'^\s*\.amdgcn_target\s+"([^"\n]*)"', re.MULTILINE)
_FUNCTION = re.compile(r"^\s*(?:\.type\s+([^\s,]+)\s*,\s*[@%]function|\.amdhsa_kernel\s+(\S+))", re.MULTILINE)
_TOKEN = re.compile(r"lds (write|read) (\S+) (0x[0-9a-f]{1,8}):(0x[0-9a-f]{1,8})")
_REGION = re.compile(r"region (\S.*)")
_ROLES = re.compile(r"roles((?: [\w.$]+)+)")
_STAGGER = re.compile(r"stagger (\d{1,3})")
_CODE_SECTION = re.compile(r"\.text\b|[^,]*,\s*\"[a-z]*x")
# Directives that change nothing about the instructions.
_IGNORED = frozenset({
    ".globl", ".global", ".protected", ".hidden", ".internal", ".weak", ".local", ".type", ".file", ".loc", ".ident", ".addrsig",
    ".addrsig_sym", ".amdgcn_target", ".amdhsa_code_object_version", ".comm", ".lcomm",
})
_CODE = frozenset({".text"})
_DATA = frozenset({".data", ".bss", ".rodata"})
_ALIGNS = {".p2align": True, ".p2alignl": True, ".align": False, ".balign": False, ".balignl": False}
_NOP = 0xBF800000
# Only an assembler gives these a meaning, wherever they stand.
_COMPUTING = (".macro", ".endm", ".rept", ".endr", ".irp", ".if", ".else", ".include", ".incbin", ".altmacro", ".noaltmacro", ".purgem",
              ".pushsection", ".popsection", ".previous", ".subsection", ".org")
_KERNEL = re.compile(r"^\s*\.amdhsa_kernel\s+(\S+)", re.MULTILINE)


def kernel_names(text: str) -> frozenset[str]:
    """The kernels that a text describes."""
    return frozenset(_KERNEL.findall(text))


def text_arch(text: str) -> str | None:
    """The target id of the text's .amdgcn_target ("gfx950", "gfx942:xnack-"), None where it has none.

    Raises ReadError for another architecture than asmgen knows.
    """
    match = _TARGET.search(text)
    if match is None:
        return None
    target = match[1].partition("--")[2]
    if target.partition(":")[0] not in ARCHITECTURES:
        raise ReadError(f"the text is for {shorten(match[1])!r}; {', '.join(ARCHITECTURES)} can be read")
    return target


def choose_arch(text: str, arch: str | None, file: str) -> str:
    """The target id to read text for: its own, or the one asked for. Raises ReadError where there is none, or where the two differ."""
    own = text_arch(text)
    if own is None and arch is None:
        raise ReadError(f"the text does not say which architecture it is for: name one of {', '.join(ARCHITECTURES)} (--arch)", file)
    if own is not None and arch is not None and own.partition(":")[0] != arch.partition(":")[0]:
        raise ReadError(f"the text is for {own}, not for {arch}", file)
    return own or arch or ""


def read_text(text: str, arch: str | None = None, name: str = "", file: str = "<text>") -> list[Program]:
    """One Program for each function or kernel symbol, in the order of the text; one called `name` where it has none.

    `arch` may be absent where the text has .amdgcn_target. A comment `lds write NAME LOW:HIGH` (or read) becomes a token, the comment of an
    s_waitcnt or s_nop its reason, any other comment after an instruction its comment; `region NAME`, `stagger N` and `roles LABEL LABEL`
    stand alone. A llvm-objdump listing is recognised by its addresses. Raises ReadError at FILE:LINE for an unknown instruction and
    wrong operands, NeedsAssembler for text that computes.
    """
    check_characters(text, file)
    base = choose_arch(text, arch, file).partition(":")[0]
    if is_listing(text):
        return listing_programs(text, base, name, file)
    return _TextReader(text, base, name, file).programs()


_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")


def check_characters(text: str, file: str) -> None:
    """Raises ReadError at the first control character: such a file is no assembly text."""
    match = _CONTROL.search(text)
    if match is not None:
        line = text.count("\n", 0, match.start()) + 1
        raise ReadError(f"the control character {ord(match[0]):#04x} stands in it, so it is no assembly text", f"{file}:{line}")


@dataclass
class _Part:
    """A Program in the making. `pending` holds padding that belongs to it only if more code follows."""

    name: str
    items: list[Item] = field(default_factory=list)
    pending: list[Align] = field(default_factory=list)
    stagger: int = 0
    roles: tuple[str, ...] = ()

    def add(self, item: Item) -> None:
        self.items += self.pending
        self.pending.clear()
        self.items.append(item)


@dataclass
class _KernelFacts:
    """What a kernel's .amdhsa_ directives say that Programs keep."""

    accum_offset: int | None = None
    preload: bool = False
    workitem_dims: int = 0


class _TextReader:
    """Goes through the statements of one text."""

    def __init__(self, text: str, arch: str, name: str, file: str) -> None:
        self._text = text
        self._arch = arch
        self._name = name
        self._file = file
        self._reader = InstructionReader(arch)
        self._functions = {match[1] or match[2] for match in _FUNCTION.finditer(text)}
        self._parts: list[_Part] = []
        self._facts: dict[str, _KernelFacts] = {}
        self._labels: set[str] = set()
        self._values: set[str] = set()
        self._in_code = True
        self._block = ""  # the directive that ends the block of lines which is passed over
        self._kernel: _KernelFacts | None = None

    def programs(self) -> list[Program]:
        for statement in statements(self._text, self._file):
            self._statement(statement)
        self._check_symbols()
        found = [part for part in self._parts if any(isinstance(item, Instruction) for item in part.items)]
        return [self._program(part) for part in found]

    def _program(self, part: _Part) -> Program:
        facts = self._facts.get(part.name, _KernelFacts(workitem_dims=2))
        entry = _body_label(part.items) if facts.preload else ""
        for role in part.roles:
            if not any(isinstance(item, Label) and item.name == role for item in part.items):
                raise ReadError(f"roles names the label {shorten(role)}, which is not there", self._file)
        return Program(part.name, self._arch, tuple(part.items), part.stagger, accum_offset=facts.accum_offset, entry=entry,
                       roles=part.roles, workitem_dims=facts.workitem_dims)

    def _statement(self, statement: Statement) -> None:
        code = statement.code
        if self._block:
            if code.startswith(self._block):
                self._block = ""
            elif self._block == ".end_amdhsa_kernel":
                self._kernel_directive(code)
            return
        if self._in_code:
            for label in statement.labels:
                self._label(label, statement)
        if not code:
            region = _REGION.fullmatch(statement.comment)
            if region is not None and self._in_code and not statement.labels:
                self._part().add(Region(region[1]))
            stagger = _STAGGER.fullmatch(statement.comment)
            if stagger is not None and self._in_code:
                self._part().stagger = int(stagger[1])
            roles = _ROLES.fullmatch(statement.comment)
            if roles is not None and self._in_code:
                self._part().roles = tuple(roles[1].split())
        elif code.startswith("."):
            self._directive(code, statement)
        elif "=" in code and _is_assignment(code):
            self._values.add(code.partition("=")[0].strip())
        elif self._in_code:
            self._part().add(self._instruction(code, statement))

    def _part(self) -> _Part:
        if not self._parts:
            self._parts.append(_Part(self._name))
        return self._parts[-1]

    def _label(self, label: str, statement: Statement) -> None:
        if label in self._functions:
            self._parts.append(_Part(label))
        elif label.isdigit():
            raise NeedsAssembler(f"the numbered label `{label}:` is read by an assembler only", self._where(statement))
        elif label in self._labels:
            raise ReadError(f"the label {shorten(label)!r} is placed twice", self._where(statement))
        else:
            self._labels.add(label)
            self._part().add(Label(label, SourceLine(self._file, statement.line)))

    def _instruction(self, code: str, statement: Statement) -> Instruction:
        mnemonic = code.partition(" ")[0]
        tokens, comments = _comments(statement.comment)
        reason = comments.pop(0) if comments and mnemonic in ("s_waitcnt", "s_nop") else ""
        source = SourceLine(self._file, statement.line)
        return self._reader.read(code, str(source), source, reason, "; ".join(comments), tokens)

    def _where(self, statement: Statement) -> str:
        return f"{self._file}:{statement.line}"

    def _directive(self, code: str, statement: Statement) -> None:
        name, _, rest = code.partition(" ")
        if name.startswith(_COMPUTING):
            raise NeedsAssembler(f"{shorten(name)} is read by an assembler only", self._where(statement))
        if name == ".amdgpu_metadata":
            self._block = ".end_amdgpu_metadata"
        elif name == ".amdhsa_kernel":
            self._block = ".end_amdhsa_kernel"
            self._kernel = self._facts.setdefault(rest.strip(), _KernelFacts())
        elif name in (".set", ".equ", ".equiv"):
            self._values.add(rest.partition(",")[0].strip())
        elif name in _CODE or name in _DATA or name == ".section":
            self._in_code = name in _CODE or name == ".section" and _CODE_SECTION.match(rest.strip()) is not None
        elif name == ".size":
            self._end_part(rest.partition(",")[0].strip())
        elif not self._in_code or name in _IGNORED or name.startswith((".cfi_", ".amd_", ".amdgpu_")):
            return
        elif name in _ALIGNS:
            self._align(name, rest, statement)
        elif not (name == ".fill" and self._is_padding(rest)):
            raise NeedsAssembler(f"{shorten(code)} between instructions is read by an assembler only", self._where(statement))

    def _end_part(self, name: str) -> None:
        """After a function's .size only padding comes; instructions all the same would be a function without a symbol."""
        if self._parts and self._parts[-1].name == name and self._in_code:
            self._parts[-1].pending.clear()
            self._parts.append(_Part(""))

    def _align(self, name: str, rest: str, statement: Statement) -> None:
        numbers = [part.strip() for part in rest.split(",")]
        try:
            size, fill = int(numbers[0], 0), int(numbers[1], 0) if len(numbers) > 1 and numbers[1] else _NOP
        except ValueError:
            size, fill = 0, 0
        # The plain forms fill code with s_nop only where no value is given.
        if _ALIGNS[name]:
            size = 1 << size if 0 <= size <= 16 else 0
        if len(numbers) > 2 or size < 1 or size & size - 1 or fill != _NOP:
            raise NeedsAssembler(f"{shorten(name + ' ' + rest)} pads otherwise than with s_nop to a power of two", self._where(statement))
        if self._parts and any(isinstance(item, Instruction) for item in self._parts[-1].items):
            self._parts[-1].pending.append(Align(size))

    def _is_padding(self, rest: str) -> bool:
        """Whether a .fill makes nothing but s_nop that no instruction runs into."""
        numbers = [part.strip() for part in rest.split(",")]
        last = next((item for item in reversed(self._part().items) if isinstance(item, Instruction)), None)
        return numbers[1:] in (["4", hex(_NOP)], ["4", str(_NOP)]) and (last is None or last.ends_block)

    def _kernel_directive(self, code: str) -> None:
        name, _, value = code.partition(" ")
        try:
            number = int(value, 0)
        except ValueError:
            return  # an expression of the assembler
        assert self._kernel is not None
        if name == ".amdhsa_accum_offset" and number in range(4, VGPR_COUNT + 1, 4):
            self._kernel.accum_offset = number
        elif name == ".amdhsa_system_vgpr_workitem_id" and number in range(3):
            self._kernel.workitem_dims = number
        elif name == ".amdhsa_user_sgpr_kernarg_preload_length":
            self._kernel.preload = number > 0

    def _check_symbols(self) -> None:
        """Symbols are labels of the text or addresses that the linker fills in; others have values that an assembler knows."""
        labels = self._labels | self._functions
        addresses = labels - self._values
        for part in self._parts:
            for item in part.items:
                if not isinstance(item, Instruction):
                    continue
                for location, operand in zip(item.form.operands, item.operands, strict=True):
                    if isinstance(operand, Symbol) and operand.name not in labels and \
                            ("b" in location.accepts or not _is_address(operand.name, addresses)):
                        what = "a symbol with a value" if operand.name in self._values else "no label of the text"
                        raise NeedsAssembler(f"`{shorten(item.text)}`: {shorten(operand.name)!r} is {what}", str(item.source))


def _is_address(expression: str, labels: set[str]) -> bool:
    """Whether an expression is an address or a distance that only the linker or the layout decides."""
    names = re.findall(r"[A-Za-z_.$][\w.$]*(?=@)?", expression)
    return "@" in expression or len(names) > 1 and all(name in labels for name in names)


def _is_assignment(code: str) -> bool:
    return re.match(r"[A-Za-z_.$][\w.$]*\s*=(?!=)", code) is not None


def _comments(comment: str) -> tuple[tuple[TokenUse, ...], list[str]]:
    """The tokens of an instruction's comment, and its other parts."""
    if not comment:
        return (), []
    tokens: list[TokenUse] = []
    parts = comment.split("; ")
    for part in parts:
        match = _TOKEN.fullmatch(part)
        if match is None:
            break
        tokens.append(TokenUse(match[1], match[2], int(match[3], 16), int(match[4], 16)))
    rest = parts[len(tokens):]
    return tuple(tokens), [rest[0], "; ".join(rest[1:])] if len(rest) > 1 else rest


def _body_label(items: list[Item]) -> str:
    """The label at which preloading firmware starts: the one after the first padding to 256 bytes."""
    padded = False
    for item in items:
        if isinstance(item, Align) and item.bytes == PRELOAD_ENTRY:
            padded = True
        elif padded and isinstance(item, Label):
            return item.name
        elif padded and isinstance(item, Instruction):
            break
    return ""
