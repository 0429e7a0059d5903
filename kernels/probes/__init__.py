"""Probes: small kernels that measure what the cycle model assumes, for those who have a GPU. `catalogue` lists them."""
