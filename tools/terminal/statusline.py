"""One line on a terminal's stderr that long work writes over, and takes away at its end; nothing where stderr is no terminal."""

from __future__ import annotations

import sys
from types import TracebackType


class StatusLine:
    """The line. As a context manager it is taken away at the end, also after an error."""

    def __init__(self) -> None:
        self._on = sys.stderr.isatty()

    def show(self, text: str) -> None:
        """Write `text` over what stands there."""
        self._write(f"\r{text}\x1b[K")

    def end(self) -> None:
        """Take the line away."""
        self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        if self._on:
            sys.stderr.write(text)
            sys.stderr.flush()

    def __enter__(self) -> StatusLine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end()
