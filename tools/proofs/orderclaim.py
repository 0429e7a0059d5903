"""The claim order, which expression hashes settle, and launches that race in LDS in some order of waves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from asmgen.author.family.family import Family
from asmgen.emulator.scheduling.run import Options
from asmgen.isa.errors import AsmgenError
from asmgen.program.program import Program
from asmgen.tools.proofs.hashrun import HashReport, run_hashes
from asmgen.tools.proofs.proof import ORDER, PROVEN, REFUTED, UNKNOWN, Claim, launch_shown
from asmgen.tools.proofs.proofclasses import given_launches
from asmgen.tools.running.build import Built
from asmgen.tools.running.runner import run_kernel

ORDERS = ("lockstep", "serial", "random:3")


def order_claim(family: Family, built: Built, program: Program | None = None) -> Claim:
    """The bits of outputs do not depend on the order of waves: the expression that makes each element is the same in three of them."""
    contract, build = built.kernel.contract, built.kernel.parameters
    given = given_launches(contract, build)
    launch = given[0] if _adds_in_memory(program or built.kernel.program) else given[min(1, len(given) - 1)]
    values = contract.resolve_run({**build, **launch})
    scope, assumed, reports = "one launch", ["instructions give the same bits of the same operands each time"], list[HashReport]()
    for order in ORDERS:
        try:
            report = run_hashes(family, built, values, order=order, program=program)
        except AsmgenError as error:
            return Claim(ORDER, UNKNOWN, scope, (), f"it fails: {error.sentence}", None, launch_shown(family, built, values, order))
        first = reports[0] if reports else report
        reports.append(report)
        scope = f"order of waves, one launch of {sum(part.size for part in first.outputs.values())} elements in the orders " \
                f"{', '.join(ORDERS[:len(reports)])}"
        if first is report and report.decisions:
            where = ", ".join(dict.fromkeys(one.text for one in first.decisions[:3]))
            assumed.append(f"data decides alike at {len(first.decisions)} instructions ({where})")
        for name, found in report.outputs.items():
            other = (found != first.outputs[name]) & ~(report.unknown[name] | first.unknown[name])
            if other.any():
                why = f"element {np.argwhere(other)[0].tolist()} of {name} is another expression in the order {order} than in {ORDERS[0]}"
                return Claim(ORDER, REFUTED, scope, tuple(assumed), why, None, launch_shown(family, built, values, order))
    lost = next((name for report in reports for name, part in report.unknown.items() if part.any()), None)
    if lost is not None:
        return Claim(ORDER, UNKNOWN, scope, tuple(assumed), f"of elements of {lost} it is not known what made them")
    return Claim(ORDER, PROVEN, scope, tuple(assumed))


def _adds_in_memory(program: Program) -> bool:
    """Whether workgroups may change what others read: atomics in memory do not depend on one workgroup alone."""
    rows = [instruction.opcode.memory for instruction in program.instructions]
    return any(row is not None and row.kind == "atomic" and row.space != "lds" for row in rows)


def race_launch(family: Family, built: Built) -> Mapping[str, Any] | None:
    """A launch in which the emulator sees waves race in LDS, of the first few."""
    contract, build = built.kernel.contract, built.kernel.parameters
    for _, launch in enumerate(given_launches(contract, build)[:4]):
        values = contract.resolve_run({**build, **launch})
        for order in ORDERS:
            report = run_kernel(family, built, values, "emulator", 1, Options(order=order))
            if any(finding.check == "lds-race" for finding in report.findings):
                return launch_shown(family, built, values, order)
    return None
