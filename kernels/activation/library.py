"""activation with all its variants. The first variant of an architecture is its default."""

from asmgen.kernels.activation.family import ACTIVATION
from asmgen.kernels.activation.rowwise import by_rows  # isort: split

__all__ = ["ACTIVATION", "by_rows"]
