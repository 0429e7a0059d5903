"""Code objects: reading anyone's (load, bundle, descriptor, metadata) and the assembly text around our kernels' code (emit)."""
