"""The author's line that errors name, and the line of the helper that wrote the code for him."""

from __future__ import annotations

from functools import lru_cache

from asmgen.program.program import SourceLine
from asmgen.regalloc.ranges import author_frames


def where(source: SourceLine | None, helper: SourceLine | None) -> str:
    """The author's place and, where another file wrote it, the helper's, as errors have it."""
    if source is None:
        return ""
    return f"{source} (by {helper})" if helper is not None else str(source)


source_line = lru_cache(maxsize=1024)(SourceLine)  # one line of a kernel emits many instructions


def author_line() -> SourceLine | None:
    """The nearest line up the stack that is not asmgen's own machinery: a kernel file's or a user's."""
    place, _ = author_frames()
    return source_line(*place) if place is not None else None
