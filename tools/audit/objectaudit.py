"""What `asmgen audit` says of one code object: the findings of lint in each of its kernels, and what could not be judged.

What cannot be judged is a finding too (rules A001 to A003), so that counts, baselines and reports have one form for all.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from asmgen.checks.finding.finding import LintFinding
from asmgen.checks.lint.facts import facts_of_code_object
from asmgen.checks.lint.linting import Linter
from asmgen.codeobject.load import CodeObject
from asmgen.garbage import collection_paused
from asmgen.isa.errors import AsmgenError
from asmgen.program.program import Program
from asmgen.reader.disassembly import program_readers
from asmgen.tools.audit.auditfiles import FoundObject
from asmgen.tools.terminal.entry import internal_error

UNREADABLE, FAILED, ENDED, EMPTY = "A001", "A002", "A003", "A004"


@dataclass(frozen=True)
class AuditFinding:
    """One finding, with as much as a report says: `producer` and `consumer` are the instructions' texts ("": there is none), `address`
    the consumer's. `new` is False where a baseline has it."""

    rule: str
    severity: str
    message: str
    address: int | None = None
    producer: str = ""
    consumer: str = ""
    producer_address: int | None = None
    have: int | None = None
    need: int | None = None
    new: bool = True

    @classmethod
    def of(cls, finding: LintFinding) -> AuditFinding:
        """What lint found."""
        row = finding.as_json()
        return cls(finding.rule, finding.severity, finding.message, finding.address, row["producer"] or "", row["consumer"] or "",
                   row["producer_address"], finding.have, finding.need)

    @property
    def cause(self) -> tuple[str, str, str]:
        """Rule and mnemonics: what makes two findings one cause, whatever registers and addresses a compiler chose."""
        return self.rule, _mnemonic(self.producer), _mnemonic(self.consumer)


def _mnemonic(text: str) -> str:
    """Of an instruction, without what says how it is encoded, which follows from its registers."""
    return text.partition(" ")[0].removesuffix("_e32").removesuffix("_e64")


@dataclass(frozen=True)
class AuditedKernel:
    """A kernel, or a function of an object without kernels; "" for what concerns the object."""

    name: str
    instructions: int
    findings: tuple[AuditFinding, ...]


@dataclass(frozen=True)
class AuditedObject:
    """A code object; `seconds` are the processor's."""

    file: str
    number: int
    arch: str
    kernels: tuple[AuditedKernel, ...]
    seconds: float = 0.0

    @property
    def label(self) -> str:
        """The file, with the number of the object where it has several."""
        return f"{self.file}#{self.number}" if self.number else self.file

    @property
    def instructions(self) -> int:
        """Of all kernels."""
        return sum(kernel.instructions for kernel in self.kernels)


class _TooLong(BaseException):
    """The time for a code object is over. Not an Exception: nobody on the way takes it for one of their own."""


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Raises _TooLong after that many seconds (0: never)."""
    def over(number: int, frame: FrameType | None) -> None:
        raise _TooLong

    if not seconds:
        yield
        return
    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def failed(found: FoundObject, rule: str, sentence: str) -> AuditedObject:
    """An object of which nothing else can be said."""
    return AuditedObject(found.file, found.number, found.target, (AuditedKernel("", 0, (AuditFinding(rule, "error", sentence),)),))


def audit_object(found: FoundObject, limit: float = 0.0) -> AuditedObject:
    """Judge a code object within `limit` seconds (0: as long as it takes). Raises nothing: what fails is a finding."""
    if found.failure:
        return failed(found, UNREADABLE, found.failure)
    began = time.process_time()
    kernels: list[AuditedKernel] = []
    try:
        with _at_most(limit), collection_paused():
            for kernel in _kernels(found):
                kernels.append(kernel)
    except _TooLong:
        kernels.append(AuditedKernel("", 0, (AuditFinding(ENDED, "error", f"it takes longer than {limit:g} s; "
                                                         f"{len(kernels)} of its kernels were judged"),)))
    except Exception as error:
        kernels.append(AuditedKernel("", 0, (_failure(error, found.label),)))
    return AuditedObject(found.file, found.number, found.target, tuple(kernels), time.process_time() - began)


def _kernels(found: FoundObject) -> Iterator[AuditedKernel]:
    """Kernel by kernel, so that an object takes no more memory than its largest kernel."""
    code_object = CodeObject.load(found.data, origin=found.label)
    linter = Linter(found.label, facts_of_code_object(code_object))
    instructions = 0
    for name, read in program_readers(code_object):
        kernel = _audited(name, read, linter, found.label)
        instructions += kernel.instructions
        if kernel.instructions or kernel.findings:
            yield kernel
    if not instructions:
        yield AuditedKernel("", 0, (AuditFinding(EMPTY, "note", "it holds no code"),))


def _audited(name: str, read: Callable[[], Program], linter: Linter, label: str) -> AuditedKernel:
    length = 0
    try:
        program = read()
        length = len(program)
        return AuditedKernel(name, length, tuple(AuditFinding.of(finding) for finding in linter.lint(program)))
    except Exception as error:  # one kernel says nothing of the next
        return AuditedKernel(name, length, (_failure(error, label),))


def _failure(error: Exception, label: str) -> AuditFinding:
    if isinstance(error, AsmgenError):
        return AuditFinding(UNREADABLE, "error", str(error).removeprefix(f"{label}: "))
    return AuditFinding(FAILED, "error", internal_error(error))


