"""Where library kernels go, as terms: each is what the run accesses, and says what the author meant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from asmgen.emulator.carried import tracker
from asmgen.emulator.carried.carrier import HandleCarrier
from asmgen.emulator.machine.floatmode import float_mode
from asmgen.emulator.machine.state import LANES, Group, Machine
from asmgen.emulator.semantics.floats import FLOAT
from asmgen.emulator.semantics.valuconversions import CONVERT
from asmgen.emulator.terms import accesses
from asmgen.emulator.terms.polynomials import Term
from asmgen.emulator.terms.termrules import Action, TermRules
from asmgen.emulator.terms.termwords import FUNCTIONS
from asmgen.kernels.registry import family
from asmgen.program.program import Instruction
from asmgen.tools.proofs import addressrun
from asmgen.tools.proofs.addressrun import AddressReport, run_addresses
from asmgen.tools.running.build import build_kernel
from tests.emulator_harness import MODE_DEFAULT


def run(kernel: str, **values: Any) -> AddressReport:
    found = family(kernel)
    contract = found.contract("gfx950", values)
    resolved = contract.resolve_run({**contract.example, **values})
    built = build_kernel(found, "gfx950", {key: resolved[key] for key in resolved if contract.parameter(key).kind == "build"}, verify=False)
    return run_addresses(found, built, resolved)


class Floats(dict[str, Any]):
    """The functions that terms are made of; those of floats by the emulator's semantics."""

    def __missing__(self, name: str) -> Any:
        function = FLOAT.get(name) or CONVERT[name]
        kinds = name.split("_")[2:]
        source = np.float32 if kinds[-1] == "f32" else np.uint32

        def computed(*given: int) -> int:
            with np.errstate(all="ignore"):
                result = function(float_mode(MODE_DEFAULT), *(np.array([one], np.uint32).view(source) for one in given))
            return int(np.asarray(result).view(np.uint32)[0])

        return computed


class Checked(TermRules):
    """Compares the terms of accesses with what the registers hold, in some lanes of some waves."""

    checked = 0

    def begin(self, carrier: HandleCarrier, descriptor: Any, dispatch: Any) -> None:
        super().begin(carrier, descriptor, dispatch)
        self.dispatch = dispatch
        self.values = {variable.name: number for number, variable in enumerate(self.state.table.algebra.variables)}

    def watch(self, instruction: Instruction, position: int, carrier: HandleCarrier) -> Action | None:
        note = super().watch(instruction, position, carrier)
        if note is None or instruction.opcode.memory is None:  # a branch, or what it asks
            return note
        machine = carrier.machine
        blind = HandleCarrier(machine, carrier.cells, carrier.device)
        pairs = list(zip(accesses._addresses(instruction, carrier, self.state), accesses._addresses(instruction, blind, self.state),
                         strict=True))
        random = np.random.default_rng(len(instruction.text))

        def step(group: Group) -> None:
            note(group)
            for (what, terms), (_, constants) in pairs:
                shape = group.size, LANES
                found, held = np.broadcast_to(terms(group), shape), np.broadcast_to(constants(group), shape)
                for row, lane in ((0, 0), (group.size - 1, LANES - 1), tuple(random.integers(shape))):
                    if group.mask is None or group.mask[row, lane]:
                        numbers = int(found[row, lane]), int(held[row, lane])
                        self.check(instruction, what, numbers, machine, int(group.waves[row]), int(lane))

        return step

    def check(self, instruction: Instruction, what: str, numbers: tuple[int, int], machine: Machine, wave: int, lane: int) -> None:
        table = self.state.table
        term, constant = (table.terms[number] for number in numbers)
        assert constant is not None
        if term is None:
            return
        value, wanted = self.value(term, machine, wave, lane), table.algebra.constant(constant)
        bits = 64 if what == "address" else 32
        assert wanted is not None and (value - wanted) % (1 << bits) == 0, f"{instruction.text}: {what} {table.algebra.text(term)}"
        Checked.checked += 1

    def value(self, term: Term, machine: Machine, wave: int, lane: int) -> int:
        given = {}
        ids = self.dispatch.workgroup_ids(machine.first_workgroup + int(machine.workgroup[wave]), 1)[0]
        item = int(machine.wave_in_group[wave]) * LANES + lane
        for argument in self.arguments:
            raw = int.from_bytes(self.dispatch.kernarg[argument.offset:argument.offset + argument.size], "little")
            given[self.values.get(argument.name, -1)] = raw
        for axis, name in enumerate("xyz"):
            given[self.values.get(f"workgroup.{name}", -1)] = int(ids[axis])
        for position, number in enumerate(self.state.item_bits):
            given[number] = item >> position & 1
        return self.state.table.algebra.value(term, given, Floats(FUNCTIONS))


CASES: list[tuple[str, dict[str, Any]]] = [
    ("gemm-bf16", {"tile": "64x64x64", "m": 70, "n": 72, "k": 128, "ldd": 80, "beta": 0.5}),
    ("gemm-fp8", {"tile": "64x64x128", "m": 70, "n": 200, "k": 256, "scales": "row"}),
    ("attention-forward", {"d": 64, "b": 1, "hq": 2, "hkv": 1, "sq": 40, "sk": 100, "causal": True}),
    ("03-transpose", {}),
]


@pytest.mark.parametrize(("kernel", "values"), CASES, ids=[case[0] for case in CASES])
@pytest.mark.slow_after_first
def test_terms_are_what_the_run_accesses(kernel: str, values: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addressrun, "TermRules", Checked)
    Checked.checked = 0
    report = run(kernel, **values)
    assert Checked.checked > 100
    assert not [one.instruction.text for one in report.unknown() if one.what == "LDS"]


@pytest.mark.slow
def test_a_product_says_what_its_author_meant() -> None:
    report = run("gemm-bf16", tile="64x64x64", m=128, n=128, k=1024)
    assert not report.unknown()
    texts = {report.sentence(one) for one in report.sequences}
    assert any(": address a + " in text and "2 lda min(-1 + m, 64 workgroup.y)" in text for text in texts)
    assert any(": address d + " in text and "128 workgroup.x" in text for text in texts)
    loops = [one for one in report.sequences
             if one.what == "offset" and len(one.terms) > 3 and one.instruction.name.startswith("buffer_load")]
    steps = {report.algebra.text(step) for one in loops if (step := one.step(report.table)) is not None}
    assert loops and steps <= {"0", "128", "256", "512"}, "64 columns of two bytes further each step, of which the loop holds up to four"


def test_what_may_wrap_says_so() -> None:
    """Rows of D at an offset of 32 bits: the contract's bounds of ldd exclude a wrap, those of a 32-bit number do not."""
    report = run("gemm-bf16", tile="64x64x64", m=128, n=128, k=128)
    stores = [one for one in report.sequences if one.what == "offset" and one.instruction.name.startswith("buffer_store")]
    wrapping = {wrap for one in stores for term in one.terms if term is not None for wrap in report.wraps(term)}
    (ldd,) = [variable for variable in report.algebra.variables if variable.name == "ldd"]
    assert all("ldd" in wrap for wrap in wrapping)
    number = report.algebra.variables.index(ldd)
    for one in stores:
        for term in one.terms:
            assert term is not None
            plain = tuple((monomial, coefficient) for monomial, coefficient in term
                          if not any(report.algebra.variables[part].name.startswith("floor") for part in monomial))
            assert report.algebra.bounds(plain, {number: (0, 1 << 20)})[1] < 1 << 32


def test_terms_stay_where_rows_of_words_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accesses name terms; only rows of cells go, however often that is asked."""
    def found() -> list[object]:
        return [one.terms for one in run("03-transpose", m=64, n=64).sequences]

    plain = found()
    monkeypatch.setattr(tracker, "FULL", 0)
    assert found() == plain and plain


def test_a_domain_without_rules_is_refused() -> None:
    with pytest.raises(TypeError, match="abstract"):
        type("Empty", (tracker.Rules,), {})()
