"""The tensors of attention-backward, in the order of its arguments, and the sizes that its kernels share."""

TENSORS = ("q", "k", "v", "o", "do", "dq", "dk", "dv")
MAIN = ("q", "k", "v", "do", "dk", "dv")
"""Those that the main kernel reads and writes."""
OF_KEYS = ("k", "v", "dk", "dv")
"""Those with a row for each key, in heads of K and V; the others have one for each query."""
WRITTEN = ("dq", "dk", "dv")
BLOCK = 32
"""Queries of a step of most variants, and keys of a step of the kernel that makes dQ by itself. For each step's queries of a head,
`statistics` has -LSE / softmax_scale of all, then -delta of all, in float32."""
QUERIES = 256
"""Queries of a workgroup of the kernel that makes dQ by itself."""
