"""The author's line that errors show, and the line of the helper that emitted the code."""

from __future__ import annotations

from functools import lru_cache

from asmgen.program.program import SourceLine
from asmgen.regalloc.ranges import author_frames


def where(source: SourceLine | None, helper: SourceLine | None) -> str:
    """The author's line as errors show it, with the helper's line if a helper in another file emitted the code."""
    if source is None:
        return ""
    return f"{source} (by {helper})" if helper is not None else str(source)


source_line = lru_cache(maxsize=1024)(SourceLine)  # one line of a kernel emits many instructions


def author_line() -> SourceLine | None:
    """The nearest line up the stack outside of asmgen's own machinery: in a kernel file or in a user's file."""
    found, _ = author_frames()
    return source_line(*found) if found is not None else None
