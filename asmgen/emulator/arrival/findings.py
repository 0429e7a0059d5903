"""What the emulator finds wrong: each finding names both instructions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace

from asmgen.isa.errors import AsmgenError
from asmgen.program.program import Instruction

SEVERITIES = ("error", "warning", "note")


@dataclass(frozen=True)
class Check:
    """One row of CHECKS.

    `severity` is the worst that the check says. `always`: it costs nothing and is made with checks off too, as the emulator cannot
    go on as if nothing were.
    """

    name: str
    severity: str
    meaning: str
    always: bool = False


CHECKS = {check.name: check for check in (
    Check("read-before-wait", "error", "a register is read before its wave has waited for the load that fills it"),
    Check("overwrite-before-wait", "error", "a register is written while a load that has not been waited for will still write it"),
    Check("lds-dma-before-wait", "error", "a wave touches LDS bytes that its own LDS-DMA has not delivered, or loads into those "
          "that its LDS operations may still touch"),
    Check("wait-state", "error", "fewer wait states stand between two instructions than ISA text and LLVM both ask for"),
    Check("lds-race", "error", "two waves touch the same LDS bytes in one barrier interval, or while a write is in flight over a barrier, "
                               "and one of them writes"),
    Check("global-race", "error", "two waves of a workgroup touch the same bytes of device memory in one barrier interval, one writes"),
    Check("workgroup-race", "error", "two workgroups touch the same bytes of device memory in no order, and one changes them"),
    Check("uninitialised-read", "warning", "a register is read that nobody wrote"),
    Check("uninitialised-lds-read", "warning", "LDS bytes are read that nobody wrote"),
    Check("uninitialised-use", "error", "what nobody wrote reaches an address, a branch, EXEC or memory that the host reads"),
    Check("misaligned-access", "error", "an address is not as aligned as the access asks (a warning where it is only slow)"),
    Check("access-outside-registry", "error", "an access lies outside of every buffer, of LDS or of private memory (a warning where it "
          "ends within the granule of LDS that the hardware allocates)", True),
    Check("soffset-out-of-range", "warning", "a buffer access whose soffset is beyond the descriptor's range", True),
    Check("register-beyond-allocation", "error", "a vector register that the descriptor does not allocate", True),
    Check("barrier-deadlock", "error", "live waves wait at a barrier at which others of their workgroup cannot arrive", True),
    Check("past-the-end", "error", "execution runs past the end of the code", True),
    Check("jump-outside-code", "error", "a jump to an address that holds no instruction", True),
    Check("runaway", "error", "waves go round a loop for ever, or the instruction budget is spent", True),
    Check("trap", "error", "the kernel traps", True),
    Check("halt", "error", "a wave halts for good", True),
    Check("kill", "error", "a wave kills itself", True),
)}
"""Every check by name."""
RACES = frozenset({"lds-race", "global-race", "workgroup-race"})
ALLOWANCES = {"races": RACES}
"""What a caller may allow: the checks whose errors are warnings then."""


def chosen_checks(choice: bool | Collection[str]) -> frozenset[str]:
    """The names of the checks to make: all (True), those that are always made (False), or the ones named.

    Raises AsmgenError for an unknown name.
    """
    if choice is True:
        return frozenset(CHECKS)
    if choice is False:
        return frozenset(name for name, check in CHECKS.items() if check.always)
    names = [choice] if isinstance(choice, str) else list(choice)
    for name in names:
        if name not in CHECKS:
            raise AsmgenError(f"there is no check {name!r}; known are {', '.join(CHECKS)}")
    return frozenset(names)


@dataclass(frozen=True)
class Finding:
    """One fault: which check found it, what happened, and where.

    `producer` is the instruction that started it (the load, the other wave's access), `consumer` the one at which it shows. `count` is
    how often it was seen, at least.
    """

    check: str
    severity: str
    message: str
    producer: Instruction | None
    consumer: Instruction | None
    wave: int
    workgroup: int
    count: int = 1

    def sentence(self) -> str:
        """All of it, in one sentence."""
        parts = [f"{self.severity}: {self.check}: {self.message}"]
        if self.consumer is not None:
            parts.append(f"at `{self.consumer.text}`{_where(self.consumer)}")
        if self.producer is not None:
            parts.append(f"after `{self.producer.text}`{_where(self.producer)}")
        often = f"{self.count} times, " if self.count > 1 else ""
        parts.append(f"{often}first in wave {self.wave} of workgroup {self.workgroup}")
        return ", ".join(parts)

    def as_json(self) -> dict[str, object]:
        """The fields of `asmgen run --json`."""
        return {"check": self.check, "severity": self.severity, "message": self.message, "count": self.count, "wave": self.wave,
                "workgroup": self.workgroup, "producer": _describe(self.producer), "consumer": _describe(self.consumer)}


def _where(instruction: Instruction) -> str:
    location = [f"address {instruction.address:#x}"] if instruction.address is not None else []
    if instruction.source is not None:
        location.append(str(instruction.source))
    return f" ({', '.join(location)})" if location else ""


def _describe(instruction: Instruction | None) -> dict[str, object] | None:
    if instruction is None:
        return None
    return {"text": instruction.text, "address": instruction.address,
            "source": str(instruction.source) if instruction.source is not None else None}


Key = tuple[str, int, int]


@dataclass
class Findings:
    """The distinct findings of a launch: the first of the worst of each (check, producer, consumer) is kept, the others counted.

    Two instructions that race are one pair, whichever comes first. Those of checks that are not `wanted` are dropped.
    """

    wanted: frozenset[str] = frozenset(CHECKS)
    found: dict[Key, Finding] = field(default_factory=dict)
    times: dict[Key, int] = field(default_factory=dict)

    def add(self, finding: Finding) -> None:
        """Record one."""
        if finding.check not in self.wanted:
            return
        key = _key(finding.check, finding.producer, finding.consumer)
        known = self.found.setdefault(key, finding)
        if SEVERITIES.index(finding.severity) < SEVERITIES.index(known.severity):
            self.found[key] = finding
        self.times[key] = self.times.get(key, 0) + finding.count

    def has(self, check: str, producer: Instruction | None, consumer: Instruction | None) -> bool:
        """Whether that one is known already."""
        return _key(check, producer, consumer) in self.found

    def all(self) -> list[Finding]:
        """In the order found."""
        return [replace(finding, count=self.times[key]) for key, finding in self.found.items()]


def _key(check: str, producer: Instruction | None, consumer: Instruction | None) -> Key:
    first, second = id(producer), id(consumer)
    return (check, second, first) if check in RACES and second < first else (check, first, second)


def allowed_checks(allow: Collection[str]) -> frozenset[str]:
    """The checks whose errors are to be warnings. Raises AsmgenError for what cannot be allowed."""
    names = [allow] if isinstance(allow, str) else list(allow)
    for name in names:
        if name not in ALLOWANCES:
            raise AsmgenError(f"{name!r} cannot be allowed; {', '.join(ALLOWANCES)} can")
    return frozenset(check for name in names for check in ALLOWANCES[name])


def allowing(findings: Iterable[Finding], allowed: frozenset[str]) -> Iterator[Finding]:
    """The findings, errors of the checks `allowed` as warnings."""
    for finding in findings:
        yield replace(finding, severity="warning") if finding.severity == "error" and finding.check in allowed else finding
