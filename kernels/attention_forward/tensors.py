"""The tensors of attention-forward, in the order of its arguments."""

TENSORS = ("q", "k", "v", "o")
