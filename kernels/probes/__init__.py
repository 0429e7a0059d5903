"""Probes: small kernels that measure the parameters of the cycle model on a GPU. `catalogue` lists them."""
