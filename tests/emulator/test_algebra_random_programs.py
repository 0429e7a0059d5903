"""The algebra against its definition: random programs of float instructions, computed a second time with Python's fractions of integers."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest

from asmgen.emulator.algebra.residues import P, Q
from tests.algebra_harness import Followed, Loops

REGISTERS = 8
LANES = (0, 13, 63)


@dataclass(frozen=True)
class Pair:
    """Residues modulo q and p, None where missing."""

    q: int | None
    p: int | None


def lift(function, *given: Pair) -> Pair:  # type: ignore[no-untyped-def]
    """A polynomial in both residues."""
    parts = []
    for kind, modulus in (("q", Q), ("p", P)):
        values = [getattr(one, kind) for one in given]
        parts.append(None if None in values else function(*values) % modulus)
    return Pair(*parts)


def exp2(a: Pair) -> Pair:
    return Pair(None, None if a.q is None else pow(2, a.q, P))


def reciprocal(a: Pair) -> Pair:
    return Pair(*(pow(x, -1, modulus) if x else None for x, modulus in ((a.q, Q), (a.p, P))))


def literal(value: float) -> Pair:
    numerator, denominator = value.as_integer_ratio()
    return Pair(*(numerator * pow(denominator, -1, modulus) % modulus for modulus in (Q, P)))


class Program:
    """Random instructions, and what each register is by definition in one lane."""

    def __init__(self, seed: int, run: Followed, lane: int) -> None:
        self.random, self.run, self.lane = random.Random(seed), run, lane
        self.texts: list[str] = []
        self.state: list[Pair] = []
        for register in range(REGISTERS):
            numbers = run.give(register, self.random.uniform(-1, 1))
            self.state.append(Pair(int(numbers.q[0, lane]), int(numbers.p[0, lane])))

    def step(self) -> None:
        chance = self.random
        target, a, b, c = (chance.randrange(REGISTERS) for _ in range(4))
        x, y, z = (self.state[number] for number in (a, b, c))
        sign_x, sign_y = chance.choice(["", "-"]), chance.choice(["", "-"])
        signed = [lift(lambda value, s=sign: -value if s else value, one) for sign, one in ((sign_x, x), (sign_y, y))]
        number = chance.choice([0.5, -2.0, 1.0, 4.0, 3.25])
        choices = {
            f"v_add_f32 v{target}, {sign_x}v{a}, {sign_y}v{b}": lambda: lift(lambda m, n: m + n, *signed),
            f"v_sub_f32 v{target}, {sign_x}v{a}, {sign_y}v{b}": lambda: lift(lambda m, n: m - n, *signed),
            f"v_mul_f32 v{target}, {sign_x}v{a}, {sign_y}v{b}": lambda: lift(lambda m, n: m * n, *signed),
            f"v_fma_f32 v{target}, {sign_x}v{a}, {sign_y}v{b}, v{c}": lambda: lift(lambda m, n, o: m * n + o, *signed, z),
            f"v_fmac_f32 v{target}, {sign_x}v{a}, {sign_y}v{b}": lambda: lift(lambda m, n, o: m * n + o, *signed, self.state[target]),
            f"v_mul_f32 v{target}, {number}, v{a}": lambda: lift(lambda m, n: m * n, literal(number), x),
            f"v_exp_f32 v{target}, {sign_x}v{a}": lambda: exp2(signed[0]),
            f"v_rcp_f32 v{target}, v{a}": lambda: reciprocal(x),
            f"v_ldexp_f32 v{target}, v{a}, 5": lambda: lift(lambda m: 32 * m, x),
            f"v_mov_b32 v{target}, v{a}": lambda: x,
            f"v_xor_b32 v{target}, 0x80000000, v{a}": lambda: lift(lambda m: -m, x),
        }
        text = chance.choice(list(choices))
        self.state[target] = choices[text]()
        self.texts.append(text)
        self.run.text(text)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed: int, compiled: bool) -> None:
    lane = LANES[seed % len(LANES)]
    run = Followed(seed=seed)
    run.machine.work = Loops(compiled)
    program = Program(seed, run, lane)
    for _ in range(25):
        program.step()
        if not np.isfinite(run.machine.vector[:REGISTERS, 0].view(np.float32)).all():
            break  # infinities have no numbers, which the definition here does not follow
        for register, wanted in enumerate(program.state):
            found = run.number(register)
            known = int(found.has[0, lane])
            assert Pair(int(found.q[0, lane]) if known & 1 else None, int(found.p[0, lane]) if known & 2 else None) == wanted, \
                "\n".join(program.texts)
