"""`python -m asmgen`: the command line, where the console script is not on the path."""

from __future__ import annotations

from asmgen.tools.console import main

if __name__ == "__main__":
    main()
