"""`asmgen banks` of a run: each access of LDS with what its real addresses cost, against counts by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from asmgen.toolchain import assemble
from tests.tools.test_cli import call, refused
from tests.tools.test_cli_layout import document

KERNEL = """\
.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
.text
.p2align 8
k:
\tv_lshlrev_b32 v1, 4, v0
\tv_lshlrev_b32 v2, 7, v0
\tds_write_b128 v1, v[4:7]
\ts_waitcnt lgkmcnt(0)
\tds_read_b128 v[8:11], v2
\ts_mov_b64 exec, 1
\tds_read_b128 v[8:11], v2
\ts_waitcnt lgkmcnt(0)
\ts_endpgm
.rodata
.p2align 6
.amdhsa_kernel k
\t.amdhsa_group_segment_fixed_size 16384
\t.amdhsa_next_free_vgpr 16
\t.amdhsa_next_free_sgpr 16
\t.amdhsa_accum_offset 16
.end_amdhsa_kernel
"""


@pytest.mark.needs_objdump
def test_a_specification(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Reads 128 bytes apart: four of sixteen lanes of a phase meet in each of the banks that they touch, one lane alone in none."""
    (tmp_path / "k.co").write_bytes(assemble(KERNEL, "gfx950"))
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({"code_object": "k.co", "grid": [2, 1, 1], "block": [128, 1, 1], "args": []}))
    found = document(capsys, "banks", str(spec))
    rows = found["accesses"]
    assert [(row["cycles"], row["ideal"], row["ways"], row["executed"], row["extra"]) for row in rows] == [  # type: ignore[attr-defined]
        (8, 8, 1, 4, 0), (32, 4, 8, 4, 112), (1, 1, 1, 4, 0)]
    assert found["extra"] == 112 and isinstance(rows[1]["address"], int)  # type: ignore[index]
    status, out, _ = call(capsys, "banks", str(spec))
    assert status == 0 and "112 extra cycles" in out and out.splitlines()[3].startswith("ds_read_b128 v[8:11], v2 ")


def test_a_kernel_of_the_library_has_lines(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "banks", "03-transpose")
    rows = found["accesses"]
    assert rows and all("03_transpose.py:" in row["line"] and row["extra"] == 0 for row in rows)  # type: ignore[attr-defined]


def test_requests_that_mean_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert "makes no access to LDS" in refused(capsys, "banks", "01-vector-add")
    assert "not both" in refused(capsys, "banks", "03-transpose", "--tile", "16x16")
    assert "banks wants a kernel" in refused(capsys, "banks", "--tile", "16x16")
