"""What walks over a whole program say stays with the program: its next launch asks for the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from asmgen.program.program import Program

Made = TypeVar("Made")


def kept(program: Program, name: str, given: tuple[object, ...], make: Callable[[], Made]) -> Made:
    """What `make` says of a program for what is `given`; `name` tells the walks apart. Who gets it must not change it."""
    known: dict[str, tuple[tuple[object, ...], Made]] = program.__dict__
    if name not in known or known[name][0] != given:
        known[name] = given, make()
    return known[name][1]
