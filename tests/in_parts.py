"""A family of several launches: d = 2 x + more by two kernels, or twice that by three, with a workspace between the first two."""

from __future__ import annotations

from typing import Any

import numpy as np

import asmgen as ag

POINTERS = tuple(ag.ContractArgument(name, "pointer", name) for name in ("x", "half", "d"))


def problem(p: ag.Values, seed: int) -> ag.Problem:
    x = np.random.default_rng(seed).integers(-99, 99, p["n"]).astype(np.float32)
    return ag.Problem({"x": x, "d": np.zeros(p["n"], np.float32), "more": p["more"]},
                      (ag.Output("d", (2 * x.astype(float) + p["more"]) * 2 ** p["again"]),))


def family(**changes: Any) -> ag.Family:
    """d = 2 x + more by two kernels, or 4 x + 2 more by three: `first` doubles x into a workspace, the variant adds, `last` doubles d."""
    fields: dict[str, Any] = {
        "name": "in-parts", "title": "d = 2 x + more", "problem": problem, "example": {"n": 256},
        "arguments": (POINTERS[1], POINTERS[2], ag.ContractArgument("more", "f32", "added")),
        "parameters": (ag.Parameter("again", "build", int, "doubled once more", default=0, minimum=0, maximum=1),
                       ag.Parameter("n", "run", int, "elements", minimum=128, multiple_of=128),
                       ag.Parameter("more", "run", float, "added", default=1.5)),
        "grid": ag.GridRule("ceil(n / 128)", lambda p, variant: (p["n"] // 128, 1, 1)),
        "workspaces": (ag.Workspace("half", "2 x", ag.Formula("4 n", lambda p: 4 * p["n"])),),
    }
    made = ag.Family(**{**fields, **changes})

    def move(k: ag.TileBuilder, source: str, target: str, change: Any) -> None:
        at, x, base = k.registers.vgprs(1, "at"), k.registers.vgprs(1, "x"), k.registers.sgprs(1, "base")
        k.s_mul_i32(base, k.ids["x"], 4 * k.contract.workgroup[0])
        k.v_lshlrev_b32(at, 2, k.work_item)
        k.v_add_u32(at, base, at)
        k.label("here")
        k.global_load_dword(x, at, k.argument(source))
        change(x)
        k.s_cbranch_execz("here")
        k.global_store_dword(at, x, k.argument(target))

    @made.variant("gfx950", waves=2)
    @made.variant("gfx942", waves=2)
    def added(k: ag.TileBuilder) -> None:
        move(k, "half", "d", lambda x: k.v_add_f32(x, k.argument("more"), x))

    @made.companion("first", "half = 2 x", POINTERS[:2], ag.GridRule("n / 64", lambda p, variant: (p["n"] // 64, 1, 1)), first=True)
    def doubled(k: ag.TileBuilder) -> None:
        move(k, "x", "half", lambda x: k.v_add_f32(x, x, x))

    @made.companion("last", "d = 2 d", POINTERS[2:], ag.GridRule("n / 64", lambda p, variant: (p["n"] // 64, 1, 1)),
                    when=lambda build: build["again"] == 1)
    def again(k: ag.TileBuilder) -> None:
        move(k, "d", "d", lambda x: k.v_add_f32(x, x, x))

    return made
