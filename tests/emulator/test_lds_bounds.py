"""LDS accesses beyond what the kernel declares are warnings within the allocated granule and errors beyond it, in every form."""

from __future__ import annotations

import numpy as np
import pytest

from asmgen.emulator.scheduling.run import Options
from asmgen.reader.assembly import read_text
from tests.emulator_launch import Launched, launch
from tests.planted_faults import PROLOGUE

DECLARED = 1000
ALLOCATED = {"gfx942": 1024, "gfx950": 1280}
SETUP = "s_mov_b64 s[12:13], s[8:9]\ns_mov_b32 s14, 4096\ns_mov_b32 s15, 0x20000\n" + \
    "".join(f"v_mov_b32 v{number}, 1\n" for number in range(8, 16)) + "v_mov_b32 v4, 0\nv_mov_b32 v5, 0\n"

# Text with {at} as the address register, and the bytes from that address to the end of what a lane touches.
FORMS = {
    "read u8": ("ds_read_u8 v16, {at}", 1), "read b32": ("ds_read_b32 v16, {at}", 4), "read b64": ("ds_read_b64 v[16:17], {at}", 8),
    "read b96": ("ds_read_b96 v[16:18], {at}", 12), "read b128": ("ds_read_b128 v[16:19], {at}", 16),
    "read with an offset": ("ds_read_b32 v16, {at} offset:40", 44), "read2": ("ds_read2_b32 v[16:17], {at} offset0:9 offset1:1", 40),
    "read2st64": ("ds_read2st64_b32 v[16:17], {at} offset0:0 offset1:1", 260),
    "write b16": ("ds_write_b16 {at}, v8", 2), "write b64": ("ds_write_b64 {at}, v[8:9]", 8),
    "write b96": ("ds_write_b96 {at}, v[8:10]", 12),
    "write b128": ("ds_write_b128 {at}, v[8:11]", 16), "write2": ("ds_write2_b64 {at}, v[8:9], v[10:11] offset0:1 offset1:3", 32),
    "add": ("ds_add_u32 {at}, v8", 4), "add f32": ("ds_add_rtn_f32 v16, {at}, v8", 4),
    "compare": ("ds_cmpst_rtn_b64 v[16:17], {at}, v[8:9], v[10:11]", 8),
}


def run(arch: str, body: str, waves: int = 1, checks: bool = True, declared: int = DECLARED) -> Launched:
    (program,) = read_text(f"{PROLOGUE}{SETUP}{body}\ns_waitcnt vmcnt(0) lgkmcnt(0)\ns_endpgm\n", arch)
    buffers = [np.arange(1024, dtype=np.uint32), np.zeros(1024, np.uint32)]
    return launch(arch, program, (2, 1, 1), (64 * waves, 1, 1), buffers, lds=declared, options=Options(checks=checks))


def outside(launched: Launched) -> list[str]:
    return [finding.severity for finding in launched.findings if finding.check == "access-outside-registry"]


def at(form: str, end: int) -> str:
    """Every lane at address 0 but for lane 37, which ends at `end`."""
    text, reach = FORMS[form]
    return f"v_mov_b32 v6, 0\nv_cmp_eq_u32 vcc, 37, v1\nv_mov_b32 v7, {end - reach}\nv_cndmask_b32 v6, v6, v7, vcc\n" + text.format(at="v6")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_each_form_at_each_end(arch: str, form: str) -> None:
    allocated = ALLOCATED[arch]
    for end, expected in ((DECLARED, []), (DECLARED + 2, ["warning"]), (allocated, ["warning"]), (allocated + 2, ["error"]),
                          (0x10000, ["error"]), (0x20000, ["error"])):
        assert outside(run(arch, at(form, end))) == expected, (end, form)
        assert outside(run(arch, at(form, end), checks=False)) == expected, (end, form)


@pytest.mark.parametrize("waves", [1, 16])
def test_lanes_that_do_nothing_are_not_looked_at(waves: int) -> None:
    body = "v_mov_b32 v6, 0x20000\ns_mov_b64 exec, 0\nds_read_b32 v16, v6\nds_write_b32 v6, v8\nds_add_u32 v6, v8"
    assert outside(run("gfx950", body, waves)) == []
    assert outside(run("gfx950", body.replace("exec, 0", "exec, 4"), waves)) == ["error"] * 3


@pytest.mark.parametrize("waves", [1, 16])
def test_the_worst_of_an_instruction_is_told(waves: int) -> None:
    """First a warning, in the next round an error; few waves and many take different ways through the emulator."""
    body = "v_mov_b32 v6, 998\ns_mov_b32 s21, 2\nagain:\nds_read_b32 v16, v6\ns_waitcnt lgkmcnt(0)\nv_add_u32 v6, 0x1000, v6\n" \
           "s_sub_u32 s21, s21, 1\ns_cmp_lg_u32 s21, 0\ns_cbranch_scc1 again"
    launched = run("gfx942", body, waves)
    found = [finding for finding in launched.findings if finding.check == "access-outside-registry"]
    assert [finding.severity for finding in found] == ["error"]
    assert "4 bytes of lane 0 at LDS byte 0x13e6 end 4074 bytes beyond" in found[0].message  # 5094 + 4 - 1024


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_the_last_granule_is_there(arch: str) -> None:
    """What is written after the declared bytes can be read back; after the allocation it is 0."""
    for place, expected in ((ALLOCATED[arch] - 4, 7), (ALLOCATED[arch], 0)):
        body = f"v_mov_b32 v6, {place}\nv_mov_b32 v7, 7\nds_write_b32 v6, v7\ns_waitcnt lgkmcnt(0)\nds_read_b32 v16, v6\n" \
               "s_waitcnt lgkmcnt(0)\nglobal_store_dword v2, v16, s[10:11]"
        assert run(arch, body).buffers[1][:64].tolist() == [expected] * 64


@pytest.mark.parametrize("load", ["buffer_load_dword v2, s[12:15], 0 offen", "global_load_lds_dword v2, s[8:9]"])
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_loads_into_lds(arch: str, load: str) -> None:
    """64 lanes fill 256 bytes from M0 on; the instruction's offset counts too."""
    load += " offset:16"
    load += " lds" if load.startswith("buffer") else ""
    for end, expected in ((DECLARED, []), (DECLARED + 4, ["warning"]), (ALLOCATED[arch], ["warning"]), (ALLOCATED[arch] + 4, ["error"]),
                          (0xFFFC, ["error"])):
        body = f"s_mov_b32 m0, {end - 256 - 16}\ns_nop 1\n{load}"
        assert outside(run(arch, body)) == expected, end


def test_wide_loads_into_lds() -> None:
    for end, expected in ((2000, []), (2560, ["warning"]), (2576, ["error"]), (0x20000, ["error"])):
        body = f"v_lshlrev_b32 v6, 4, v1\ns_mov_b32 m0, {end - 1024}\ns_nop 1\nbuffer_load_dwordx4 v6, s[12:15], 0 offen lds"
        assert outside(run("gfx950", body, declared=2000)) == expected, end


def test_a_kernel_without_lds() -> None:
    assert outside(run("gfx950", "v_mov_b32 v6, 0\nds_write_b32 v6, v8", declared=0)) == ["error"]


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_counters_in_lds(arch: str) -> None:
    for place, expected in ((DECLARED - 4, []), (DECLARED, ["warning"]), (ALLOCATED[arch], ["error"])):
        assert outside(run(arch, f"s_mov_b32 m0, {place}\ns_nop 1\nds_append v16")) == expected
