"""attention-forward with all its variants. The first variant of an architecture is its default."""

from asmgen.kernels.attention_forward.family import ATTENTION
from asmgen.kernels.attention_forward.pingpong import ping_pong  # isort: split

# The architecture whose variants are declared first is the default, and so is its first variant.

from asmgen.kernels.attention_forward.interleaved import interleaved  # isort: split

from asmgen.kernels.attention_forward.cdna3 import cdna3  # isort: split

__all__ = ["ATTENTION", "cdna3", "interleaved", "ping_pong"]
