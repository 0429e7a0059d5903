"""`asmgen inspect --html`: one page that needs nothing else, with timeline and listing of the main loop, readable at 1280 pixels."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest

from asmgen.checks.lint.facts import KernelFacts
from asmgen.reader.assembly import read_text
from asmgen.tools.inspection.htmlreport import inspection_html
from asmgen.tools.inspection.inspection import FileReport, KernelReport, inspect_program
from asmgen.tools.inspection.looppicture import GROUP_COLOURS
from asmgen.tools.inspection.looptimeline import loop_timeline

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
WIDTH = 1280
MFMA = "v_mfma_f32_32x32x16_bf16 a[{0}:{1}], v[4:7], v[8:11], a[{0}:{1}]\n"
VOID = {"meta", "br", "path", "rect"}


def kernel(body: str, waves: int = 4, before: str = "", behind: str = "") -> KernelReport:
    text = f"{before}L:\n{body}s_sub_u32 s20, s20, 1\ns_cmp_lg_u32 s20, 0\ns_cbranch_scc1 L\n{behind}s_endpgm\n"
    return inspect_program(read_text(text, "gfx950")[0], None, facts=KernelFacts(block=(64 * waves, 1, 1)))


@cache
def example() -> str:
    """A loop with everything in it, before and behind it 5,000 instructions."""
    body = ("s_waitcnt lgkmcnt(0)  ; A <landed> & B\n" + "".join(MFMA.format(16 * n, 16 * n + 15) for n in range(4))
            + "ds_read_b128 v[4:7], v0 offset:64\nds_write_b64 v0, v[12:13] offset:4096\nglobal_load_dwordx4 v[8:11], v[2:3], off\n"
            "v_accvgpr_read_b32 v14, a1\nv_add_u32 v15, v14, v14\ns_barrier\n") * 6
    many = "".join(f"v_add_u32 v{20 + n % 40}, v{n % 20}, v{n % 33}\nds_read_b32 v{70 + n % 9}, v{n % 7}\n" for n in range(1250))
    report = kernel(body, before=many, behind=many)
    return inspection_html(FileReport("a<b>.s", "gfx950", (report,)), [loop_timeline(report)])


class _Page(HTMLParser):
    """Its tags, each closed, and what it asks of the network."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.outside: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.outside += [f"{tag} {name}" for name, value in attributes if name in ("src", "href", "srcset", "data")
                         and not (value or "").startswith("#")]
        self.outside += [tag] * (tag in ("script", "link", "iframe", "object"))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert tag in VOID or self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_one_page_without_network_that_says_everything() -> None:
    page = _Page()
    page.feed(example())
    assert page.open == [] and page.outside == [] and "url(" not in example() and "@import" not in example()
    assert len(example()) < 5_000_000 and f'<path fill="{GROUP_COLOURS["matrix"]}"' in example()
    text = " ".join(page.text)
    for words in ("Instruction mix", "per MFMA", "room for", "Main loop, predicted", "matrix cores busy", "Listing with reasons",
                  "Waits: in flight", "first used", "LDS map", "Uses of address registers", "Copies between registers", "Register map",
                  "instructions between MFMAs", "share the accumulator", "bytes a round", "A <landed> & B", "a<b>.s"):
        assert words in text, words
    assert "and 512 more rows" in text  # of 2,512 loads; every part of the page is bounded


def test_listing_has_issue_and_stalls_of_each_instruction() -> None:
    """A chain of VALU on the loaded register: its wait stalls for L2's latency; an addition's result is there for the next one."""
    report = kernel("global_load_dword v1, v[2:3], off\ns_waitcnt vmcnt(0)\nv_add_f32 v1, v1, v1\nv_add_f32 v1, v1, v1\n", waves=1)
    shown = loop_timeline(report)
    assert shown is not None and [row.position for row in shown.rows] == list(range(7))
    assert [row.issued for row in shown.rows[:4]] == [0, 312, 316, 320]
    assert shown.rows[1].stalls == pytest.approx({"wait vm": 308}) and not shown.rows[3].stalls
    assert shown.clocks == 312 + 4 + 4 + 4 + 4 + 4 + 24 and "all waves" in shown.assumed
    page = inspection_html(FileReport("f.s", "gfx950", (report,)), [shown])
    assert "wait vm 308.0" in page and "releases 1 global_load_dword (registers)" in page


def test_waves_that_a_barrier_puts_out_of_phase() -> None:
    """Waves 4 to 7 wait at a barrier more: while half of them multiply the others do not, and the matrix cores never stand still."""
    shift = "v_lshrrev_b32 v30, 6, v0\nv_readfirstlane_b32 s8, v30\ns_cmp_lt_u32 s8, 4\ns_cbranch_scc1 L\ns_barrier\n"
    body = "".join(MFMA.format(16 * n, 16 * n + 15) for n in range(8)) + "s_barrier\n" + "s_nop 15\n" * 3 + "s_barrier\n"
    apart, together = (loop_timeline(kernel(body, 8, before)) for before in (shift, ""))
    assert apart is not None and together is not None
    assert apart.profile.loops[0].matrix_busy > together.profile.loops[0].matrix_busy + 0.1


def test_code_without_a_loop_and_loops_that_nobody_can_walk() -> None:
    straight = inspect_program(read_text("v_mov_b32 v1, 0\ns_endpgm\n", "gfx950")[0], None)
    away = inspect_program(read_text("L:\ns_cbranch_scc1 M\ns_branch N\nM:\ns_cbranch_scc0 L\nN:\ns_endpgm\n", "gfx950")[0], None)
    assert loop_timeline(straight) is None and loop_timeline(away) is None
    page = inspection_html(FileReport("f.s", "gfx950", (straight, away)), [None, None])
    assert "no loops" in page and "Main loop" not in page and page.count("<h1") == 2


def _browser() -> str:
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium on PATH: as root `sh tools/install_browser.sh` installs one")
    return found


@pytest.mark.slow
def test_screenshot_at_1280_pixels(tmp_path: Path) -> None:
    """In a real browser nothing is wider than the window, no text is tiny, and the timeline is drawn."""
    probe = """<script>
      const wide = [...document.querySelectorAll("table,svg,p,h1,h2")].filter(e => e.getBoundingClientRect().right > innerWidth);
      const sizes = [...document.querySelectorAll("td,p,text")].map(e => parseFloat(getComputedStyle(e).fontSize));
      const drawn = document.querySelector("svg").getBoundingClientRect();
      const page = document.documentElement.scrollWidth;
      document.title = [page, innerWidth, wide.length, Math.min(...sizes), drawn.width, drawn.height].join();
    </script>"""
    page, picture = tmp_path / "page.html", tmp_path / "page.png"
    page.write_text(example().replace("</body>", f"{probe}</body>"), encoding="utf-8")
    done = subprocess.run([_browser(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={WIDTH},1600",
                           f"--user-data-dir={tmp_path / 'profile'}", f"--screenshot={picture}", "--dump-dom", page.as_uri()],
                          capture_output=True, text=True, timeout=90, check=False)
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title is not None, done.stderr[-2000:]
    scroll, window, wide, smallest, width, height = (float(number) for number in title[1].split(","))
    assert scroll <= window == WIDTH and wide == 0 and smallest >= 11 and width > 1000 and height > 100
    shot = picture.read_bytes()
    assert shot[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", shot[16:24]) == (WIDTH, 1600) and len(shot) > 50_000
