"""The one base of every error that is the user's to mend: a sentence, and where the author's kernel caused it."""

from __future__ import annotations


class AsmgenError(Exception):
    """What was asked, what is wrong and what would work, in one sentence; the command line prints it and exits with status 2.

    `where` is "file:line" of the author's Python or assembly, "" where there is none.
    """

    def __init__(self, sentence: str, where: str = "") -> None:
        super().__init__(f"{where}: {sentence}" if where else sentence)
        self.sentence = sentence
        self.where = where


class OperandError(AsmgenError):
    """An instruction's operands or modifiers do not fit its row of the instruction table."""
