"""Undefined values, lane by lane and bit by bit: what is legal to compute, store and drop, and what is found with both lines."""

from __future__ import annotations

import numpy as np
import pytest

from asmgen.emulator.arrival.findings import Finding
from asmgen.emulator.machine.dispatch import Dispatch
from asmgen.emulator.scheduling.run import Options, run_launch
from asmgen.launch.device import Buffer
from asmgen.launch.emulated import EmulatedDevice
from asmgen.reader.assembly import read_text
from tests.emulator_launch import descriptor, launch
from tests.planted_faults import Planted

USED, READ = "uninitialised-use", "uninitialised-read"
STORE = "global_store_dword v2, {}, s[8:9] @c"


def run(body: str, items: int = 64, scratch: int = 0, arch: str = "gfx950") -> tuple[list[Finding], int | None, int | None]:
    """The findings about undefined values that are errors, and the lines of @p and @c. v32 and up and s60 and up are undefined at first."""
    text, producer, consumer = Planted("", "", body).text(False)
    (program,) = read_text(text, arch)
    found = launch(arch, program, (2, 1, 1), (items, 1, 1), [np.zeros(1024, np.uint32), np.zeros(1024, np.uint32)], lds=8192,
                   scratch=scratch, options=Options(checks=(USED, READ), instruction_budget=20_000)).findings
    return [finding for finding in found if finding.severity == "error"], producer, consumer


LEGAL = {
    "low half of a mad whose addend's high half is undefined":
        "v_mov_b32 v32, v1\nv_mad_u64_u32 v[4:5], s[4:5], s20, v1, v[32:33]\n" + STORE.format("v4"),
    "low half of a 64-bit add": "v_mov_b32 v32, v1\nv_lshl_add_u64 v[4:5], v[32:33], 0, v[32:33]\n" + STORE.format("v4"),
    "carry chain whose high word is dropped": "v_add_co_u32 v4, vcc, v1, v1\nv_addc_co_u32 v5, vcc, v33, v1, vcc\n" + STORE.format("v4"),
    "shifted out": "v_and_b32 v4, 0xffff, v1\nv_lshl_or_b32 v4, v33, 16, v4\nv_lshlrev_b32 v5, 16, v4\n" + STORE.format("v5"),
    "masked": "v_and_b32 v4, 0, v33\n" + STORE.format("v4"),
    "ored with ones": "v_or_b32 v4, -1, v33\n" + STORE.format("v4"),
    "times zero": "v_mul_lo_u32 v4, v33, v3\n" + STORE.format("v4"),
    "a field": "v_lshl_or_b32 v4, v33, 8, v3\nv_bfe_u32 v5, v4, 0, 8\n" + STORE.format("v5"),
    "a permuted byte": "v_mov_b32 v6, 0x04050607\nv_perm_b32 v4, v1, v33, v6\n" + STORE.format("v4"),
    "alignbit of the other word": "v_alignbit_b32 v4, v33, v1, 0\n" + STORE.format("v4"),
    "a select that does not take it": "v_cmp_gt_u32 vcc, 64, v1\nv_cndmask_b32 v4, v33, v1, vcc\n" + STORE.format("v4"),
    "a scalar select": "s_cmp_eq_u32 s20, s20\ns_cselect_b32 s30, s20, s60\nv_mov_b32 v4, s30\n" + STORE.format("v4"),
    "a scalar mask": "s_and_b32 s30, s60, 0\ns_cmp_eq_u32 s30, 1\ns_cbranch_scc1 over\nover:\ns_nop 0",
    "stored in active lanes only": """v_cmp_gt_u32 vcc, 32, v1
        s_and_saveexec_b64 s[30:31], vcc
        v_mov_b32 v33, v1
        global_store_dword v2, v33, s[8:9]
        s_or_b64 exec, exec, s[30:31]""",
    "both branches write": """v_cmp_gt_u32 vcc, 32, v1
        s_and_saveexec_b64 s[30:31], vcc
        v_mov_b32 v33, v1
        s_xor_b64 exec, exec, s[30:31]
        v_mov_b32 v33, v2
        s_mov_b64 exec, s[30:31]
        global_store_dword v2, v33, s[8:9]""",
    "d16 halves": "global_load_short_d16 v33, v2, s[8:9]\ns_waitcnt vmcnt(0)\nglobal_store_short v2, v33, s[8:9]",
    "both d16 halves": """global_load_short_d16 v33, v2, s[8:9]
        global_load_short_d16_hi v33, v2, s[8:9]
        s_waitcnt vmcnt(0)
        global_store_dword v2, v33, s[8:9]""",
    "SDWA byte": "v_mov_b32_sdwa v33, v1 dst_sel:BYTE_0 dst_unused:UNUSED_PRESERVE src0_sel:DWORD\nglobal_store_byte v2, v33, s[8:9]",
    "op_sel half": "v_mad_u16 v33, v1, v1, v1 op_sel:[0,0,0,1]\nglobal_store_short_d16_hi v2, v33, s[8:9]",
    "packed halves": "v_mad_u16 v33, v1, v1, v1 op_sel:[0,0,0,1]\nv_pk_add_u16 v4, v33, v1 op_sel:[1,0]\nglobal_store_short v2, v4, s[8:9]",
    "stored in LDS and not read": "ds_write_b64 v2, v[32:33] offset:512",
    "stored to scratch and not read": "scratch_store_dword off, v33, off",
    "padding through LDS": """v_mov_b32 v32, v1
        v_lshlrev_b32 v7, 3, v1
        ds_write_b64 v7, v[32:33]
        s_waitcnt lgkmcnt(0)
        ds_read_b64 v[4:5], v7
        s_waitcnt lgkmcnt(0)
        global_store_dword v2, v4, s[8:9]""",
    "overwritten before the host reads": "global_store_dword v2, v33, s[8:9]\ns_waitcnt vmcnt(0)\nglobal_store_dword v2, v1, s[8:9]",
    "read before undefined LDS comes into its register":
        "v_mov_b32 v8, v1\ns_branch on\non:\nv_add_u32 v9, v8, v8\nds_read_b32 v8, v2\ns_waitcnt lgkmcnt(0)\n" + STORE.format("v9"),
    "read before an undefined product comes into its register":
        "v_mov_b32 v12, v1\ns_branch on\non:\nv_add_u32 v9, v12, v12\n"
        "v_mfma_f32_16x16x16_f16 v[12:15], v[34:35], v[34:35], 0\n" + STORE.format("v9"),
    "undefined until defined LDS comes into its register":
        "ds_write_b32 v2, v1\ns_waitcnt lgkmcnt(0)\nv_mov_b32 v8, v33\nds_read_b32 v8, v2\ns_waitcnt lgkmcnt(0)\n" + STORE.format("v8"),
    "VCC that a defined bit decides": "s_mov_b32 vcc_lo, 1\ns_cbranch_vccz over\nover:\ns_nop 0",
    "a matrix column that nobody stores": "v_mov_b32 v4, 0\nv_pk_fma_f32 v[4:5], v[32:33], v[32:33], v[32:33] op_sel_hi:[0,0,0]\ns_nop 0",
}


@pytest.mark.parametrize("body", LEGAL.values(), ids=LEGAL.keys())
def test_what_does_not_matter_is_no_error(body: str) -> None:
    found, _, _ = run(body.replace(" @c", ""), scratch=256)
    assert [finding.sentence() for finding in found] == []


FAULTY = {
    "high half of a mad": "v_mov_b32 v32, v1\nv_mad_u64_u32 v[4:5], s[4:5], s20, v1, v[32:33] @p\n" + STORE.format("v5"),
    "carry into a defined bit": "v_lshl_or_b32 v4, v33, 4, v3\nv_add_u32 v5, v4, v1\nv_lshrrev_b32 v6, 4, v5 @p\n" + STORE.format("v6"),
    "a field of it": "v_lshl_or_b32 v4, v33, 8, v3\nv_bfe_u32 v5, v4, 7, 8 @p\n" + STORE.format("v5"),
    "a select that takes it in one lane": "v_cmp_ne_u32 vcc, 5, v1\nv_cndmask_b32 v4, v33, v1, vcc @p\n" + STORE.format("v4"),
    "a select by it": "v_cmp_eq_u32 vcc, v33, v1\nv_cndmask_b32 v4, v2, v1, vcc @p\n" + STORE.format("v4"),
    "one lane of an address": """v_cmp_ne_u32 vcc, 5, v1
        v_mov_b32 v4, 0
        v_cndmask_b32 v4, v33, v4, vcc
        v_and_b32 v4, 0xfc, v4 @p
        global_load_dword v6, v4, s[8:9] @c""",
    "lanes that the branch left out": """v_cmp_gt_u32 vcc, 32, v1
        s_and_saveexec_b64 s[30:31], vcc
        v_mov_b32 v33, v1
        s_mov_b64 exec, s[30:31]
        v_add_u32 v4, v33, v1 @p
        global_store_dword v2, v4, s[8:9] @c""",
    "the other half of a d16 load": """global_load_short_d16 v33, v2, s[8:9]
        s_waitcnt vmcnt(0)
        v_lshrrev_b32 v4, 8, v33 @p
        global_store_dword v2, v4, s[8:9] @c""",
    "the other bytes of SDWA": """v_mov_b32_sdwa v33, v1 dst_sel:BYTE_0 dst_unused:UNUSED_PRESERVE src0_sel:DWORD
        v_mov_b32 v4, v33 @p
        global_store_short v2, v4, s[8:9] @c""",
    "through LDS": """v_lshlrev_b32 v7, 3, v1
        ds_write_b64 v7, v[32:33]
        s_waitcnt lgkmcnt(0)
        ds_read_b32 v4, v7 offset:4 @p
        s_waitcnt lgkmcnt(0)
        global_store_dword v2, v4, s[8:9] @c""",
    "through scratch": """scratch_store_dword off, v33, off
        s_waitcnt vmcnt(0)
        scratch_load_dword v4, off, off @p
        s_waitcnt vmcnt(0)
        global_store_dword v2, v4, s[8:9] @c""",
    "through device memory": """global_store_dword v2, v33, s[8:9]
        s_waitcnt vmcnt(0)
        global_load_dword v4, v2, s[8:9] @p
        s_waitcnt vmcnt(0)
        global_store_dword v2, v1, s[8:9]
        global_store_dword v2, v4, s[10:11] @c""",
    "stored by an atomic": "v_add_u32 v4, v33, v1 @p\nglobal_atomic_add v2, v4, s[8:9] @c",
    "a branch": "v_readlane_b32 s30, v33, 7\ns_and_b32 s30, s30, 4 @p\ns_cbranch_scc1 over @c\nover:\ns_nop 0",
    "a branch on VCC": "v_cmp_eq_u32 vcc, v33, v1 @p\ns_cbranch_vccz over @c\nover:\ns_nop 0",
    "EXEC": "v_cmp_eq_u32 s[30:31], v33, v1 @p\ns_and_saveexec_b64 s[34:35], s[30:31] @c\ns_mov_b64 exec, s[34:35]",
    "EXEC by v_cmpx": "v_add_u32 v4, v33, v1 @p\nv_cmpx_eq_u32 vcc, v4, v1 @c",
    "an LDS address": "v_and_b32 v4, 0xfc, v33 @p\nds_write_b32 v4, v1 @c",
    "a matrix factor": """v_mov_b32 v10, 0
        v_mov_b32 v11, v33
        s_nop 1
        v_mfma_f32_16x16x16_f16 v[12:15], v[10:11], v[10:11], 0 @p
        s_nop 7
        s_nop 7
        global_store_dword v2, v12, s[8:9] @c""",
}


@pytest.mark.parametrize("body", FAULTY.values(), ids=FAULTY.keys())
def test_what_matters_is_found_with_both_lines(body: str) -> None:
    found, producer, consumer = run(body, scratch=256)
    lines = {tuple(instruction.source.line if instruction is not None and instruction.source is not None else None
                   for instruction in (finding.producer, finding.consumer)) for finding in found}
    assert lines == {(producer, consumer)}, [finding.sentence() for finding in found]


def test_what_the_host_does_not_read_may_stay_undefined() -> None:
    """And what one launch leaves there another finds: its copy in a buffer that is read is an error of the copy."""
    device = EmulatedDevice("gfx950")
    padded, out = device.allocate(256), device.allocate(256)
    device.unread([padded])
    stored = launched(device, "global_store_dword v2, v33, s[8:9]", padded, out)
    assert [finding.check for finding in stored] == [READ]
    copied = launched(device, "global_load_dword v4, v2, s[8:9]\ns_waitcnt vmcnt(0)\nglobal_store_dword v2, v4, s[10:11]", padded, out)
    assert [(finding.check, finding.consumer.name, finding.producer.name) for finding in copied  # type: ignore[union-attr]
            ] == [(USED, "global_store_dword", "global_load_dword")]
    device.write(padded, np.zeros(64, np.uint32))
    assert not launched(device, "global_load_dword v4, v2, s[8:9]\ns_waitcnt vmcnt(0)\nglobal_store_dword v2, v4, s[10:11]", padded, out)


def launched(device: EmulatedDevice, body: str, *buffers: Buffer) -> list[Finding]:
    """The findings of a launch of one wave on buffers of a device."""
    (program,) = read_text(Planted("", "", body).text(False)[0], "gfx950")
    kernarg = b"".join(buffer.address.to_bytes(8, "little") for buffer in buffers)
    place = device.upload(np.frombuffer(kernarg.ljust(64, b"\0"), np.uint8))
    dispatch = Dispatch((1, 1, 1), (64, 1, 1), place.address, kernarg)
    return list(run_launch(program, descriptor(), device.profile, dispatch, device.memory, Options(checks=(USED, READ))).findings)
