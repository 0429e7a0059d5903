"""d = x + y with waits that the author writes and asmgen verifies: a missing or loose one is an error at the line that reads too early."""

from __future__ import annotations

import asmgen as ag

GROUP = 512  # elements of a workgroup: 256 work-items with two each


def problem(p: ag.Values, seed: int) -> ag.Problem:
    """Integers, so that the sums are exact. After d stand 3 elements that must not change."""
    import numpy as np

    x, y = np.random.default_rng(seed).integers(-1000, 1000, (2, p["n"])).astype(np.float32)
    d = np.full(p["n"] + 3, -1, np.float32)
    return ag.Problem({"x": x, "y": y, "d": d, "n": p["n"]}, (ag.Output("d", x.astype(float) + y, select=(slice(p["n"]),)),))


VECTOR_ADD = ag.Family(
    name="01-vector-add", title="d = x + y, float32", problem=problem, algebra=lambda p, inputs: {"d": inputs["x"] + inputs["y"]},
    arguments=(*(ag.ContractArgument(name, "pointer", f"n floats: {name}") for name in "xyd"), ag.ContractArgument("n", "u32", "elements")),
    parameters=(ag.Parameter("n", "run", int, "elements", default=1000, minimum=1, maximum=(1 << 30) - 1),),
    grid=ag.GridRule(f"one workgroup for {GROUP} elements", lambda p, variant: (-(-p["n"] // GROUP), 1, 1)))


@VECTOR_ADD.variant("gfx950", waves=4)
@VECTOR_ADD.variant("gfx942", waves=4)
def vector_add(k: ag.TileBuilder) -> ag.Kernel:
    """Each work-item adds two elements, 256 apart, so that each access of a wave is 256 contiguous bytes."""
    x, y = k.registers.vgprs(2, "x"), k.registers.vgprs(2, "y")
    at = k.registers.vgprs(1, "at", note="byte of the first element")
    buffers = {name: k.registers.sgprs(4, f"{name}_buffer") for name in "xyd"}
    k.v_mov_b32(at, 4 * GROUP)
    k.v_mul_lo_u32(at, k.ids["x"], at)
    k.v_lshl_add_u32(at, k.work_item, 2, at)
    k.s_waitcnt(lgkmcnt=0)  # the arguments
    for name, buffer in buffers.items():
        # A descriptor ends after element n - 1: bytes beyond are read as 0 and not written, so no lane is masked.
        k.s_mov_b64(buffer[0:1], k.argument(name))
        k.s_lshl_b32(buffer[2], k.argument("n"), 2)
        k.s_mov_b32(buffer[3], ag.RAW_BUFFER)
    for number in range(2):
        k.buffer_load_dword(x[number], at, buffers["x"], 0, offen=True, offset=1024 * number)
        k.buffer_load_dword(y[number], at, buffers["y"], 0, offen=True, offset=1024 * number)
    for number in range(2):
        # In flight when the first sum is made: its two loads and two younger ones. When the second is made: its loads, then the store.
        k.s_waitcnt(vmcnt=2 - number)
        k.v_add_f32(x[number], x[number], y[number])
        k.buffer_store_dword(x[number], at, buffers["d"], 0, offen=True, offset=1024 * number)
    k.s_endpgm()
    return k.finish(waits="verify")
