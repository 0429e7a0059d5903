"""How messages quote what others wrote: short, printable, whatever it is."""

from __future__ import annotations

import reprlib

MOST_QUOTED = 200
"""Characters of a value that a message shows at most."""

_LIMITED = reprlib.Repr()
_LIMITED.maxlevel, _LIMITED.maxlist, _LIMITED.maxtuple, _LIMITED.maxdict = 4, 8, 8, 8
_LIMITED.maxstring = _LIMITED.maxlong = _LIMITED.maxother = MOST_QUOTED


def quoted(value: object) -> str:
    """A value as Python writes it, at most `MOST_QUOTED` characters, all of them printable."""
    try:
        text = _LIMITED.repr(value)
    except ValueError:  # Python does not print a number of more than 4,300 digits
        text = f"a number of {value.bit_length()} bits" if isinstance(value, int) else f"a {type(value).__name__} that cannot be shown"
    return shorten(text, MOST_QUOTED)


def shorten(text: str, most: int = 100) -> str:
    """The text as a message shows it: at most `most` characters, all of them printable."""
    return printable(text if len(text) <= most else text[:most - 3] + "...")


def shown(name: object) -> str:
    """A file's name as a message shows it without quotation marks: of a long one the end, which tells files apart."""
    text = str(name)
    return printable(text if len(text) <= MOST_QUOTED else "..." + text[3 - MOST_QUOTED:])


def printable(text: str) -> str:
    """The text with a question mark for each character that cannot be printed."""
    return text if text.isprintable() else "".join(character if character.isprintable() else "?" for character in text)
