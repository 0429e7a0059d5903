"""What a trace leaves uncomputed changes nothing that it notes: registers that steer, and whole traces with and without."""

from __future__ import annotations

import pytest

from asmgen.emulator.scheduling.run import Options
from asmgen.emulator.scheduling.trace import Trace
from asmgen.launch.emulated import EmulatedDevice
from asmgen.model.steering import idle_arithmetic
from asmgen.reader.assembly import read_text
from tests.clang_objects import hip_object, needs_clang
from tests.model.test_model_foreign import KERNELS

MFMA = "v_mfma_f32_16x16x32_bf16 v[{0}:{1}], v[4:7], v[8:11], v[{0}:{1}]\n"
STORE = "global_store_dwordx4 v[0:1], v[20:23], off\n"


def idle(text: str) -> set[int]:
    return set(idle_arithmetic(read_text(text + "s_endpgm\n", "gfx950")[0]))


def test_results_that_are_stored_steer_nothing() -> None:
    assert idle("v_lshlrev_b32 v0, 2, v0\n" + MFMA.format(20, 23) + "v_mul_f32 v20, v20, v21\n" + STORE) == {1, 2}


def test_results_that_decide_are_computed() -> None:
    """Over a comparison, over readfirstlane, into M0 or an address, also round a loop."""
    for deciding in ("v_cmp_gt_f32 vcc, v20, v24\ns_cbranch_vccz L\nL:\n", "v_readfirstlane_b32 s4, v20\n",
                     "v_cvt_u32_f32 v25, v20\nds_read_b32 v26, v25\n"):
        assert idle(MFMA.format(20, 23) + deciding) == set(), deciding
    loop = "L:\nds_write_b32 v30, v31\nv_add_u32 v30, v31, v30\nv_add_u32 v31, v32, v31\nv_add_u32 v40, v31, v31\ns_cbranch_scc1 L\n"
    assert idle(loop) == {3}


def test_a_register_that_is_an_address_later_steers_from_its_last_write_on() -> None:
    text = MFMA.format(20, 23) + STORE + "v_mov_b32 v20, v2\nds_write_b32 v20, v3\n"
    assert idle(text) == {0}
    # Under part of EXEC the older value stays in the other lanes: then it steers too.
    assert idle("v_mov_b32 v20, v2\ns_mov_b64 exec, s[8:9]\nv_mov_b32 v20, v3\ns_mov_b64 exec, -1\nds_write_b32 v20, v3\n") == set()
    assert idle("s_mov_b64 exec, s[8:9]\ns_mov_b64 exec, -1\nv_mov_b32 v20, v2\nv_mov_b32 v20, v3\nds_write_b32 v20, v3\n") == {2}


def test_addresses_from_memory_and_relative_registers_leave_nothing_out() -> None:
    chase = "v_mov_b32 v9, v8\nds_read_b32 v1, v0\ns_waitcnt lgkmcnt(0)\nds_read_b32 v2, v1\n"
    assert idle(chase) == set() and idle(chase.replace("ds_read_b32 v2, v1", "ds_read_b32 v2, v0")) == {0}
    assert idle("v_mov_b32 v9, v8\ns_set_gpr_idx_on s0, gpr_idx(SRC0)\n") == set()


@needs_clang
@pytest.mark.slow
@pytest.mark.needs_objdump
@pytest.mark.parametrize("name", ["divergent_calls", "scratch_array", "lds_transpose", "wave_scan", "lds_reduce"])
def test_traces_are_the_same(name: str) -> None:
    source, kernel, grid, block, args = next(row for row in KERNELS if row[1] == name)
    found = []
    for trace in (Trace(0), Trace(0, idle=idle_arithmetic)):
        with EmulatedDevice("gfx950", Options(checks=False, trace=trace)) as device:
            copies = [value.copy() if hasattr(value, "copy") else value for value in args]
            device.launch(hip_object(source, "gfx950").kernel(kernel), (grid, 1, 1), (block, 1, 1), copies)
        found.append(list(trace.waves()))
    assert found[0] == found[1] and found[0]


@pytest.mark.needs_objdump
@pytest.mark.slow
def test_the_trace_of_a_matrix_product_needs_no_product(monkeypatch: pytest.MonkeyPatch) -> None:
    from asmgen.kernels.registry import family
    from asmgen.tools.profile_command import trace_kernel
    from asmgen.tools.running.build import build_kernel
    from asmgen.tuning import traced

    library = family("gemm-bf16")
    built = build_kernel(library, "gfx950", {})
    parameters = built.kernel.contract.resolve_run({"m": 128, "n": 128, "k": 192} | dict(built.kernel.parameters))
    short = list(trace_kernel(library, built, parameters, 1).trace.waves())
    monkeypatch.setattr(traced, "idle_arithmetic", lambda program: frozenset())
    whole = trace_kernel(library, built, parameters, 1).trace
    assert whole.idle(built.kernel.program) == frozenset() and short == list(whole.waves())
    products = {position for position, instruction in enumerate(built.kernel.program.instructions) if "mfma" in instruction.opcode.classes}
    assert products and products <= idle_arithmetic(built.kernel.program)
