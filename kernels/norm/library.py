"""norm with all its variants. The first variant of an architecture is its default."""

from asmgen.kernels.norm.family import NORM
from asmgen.kernels.norm.rowwise import rowwise  # isort: split

__all__ = ["NORM", "rowwise"]
