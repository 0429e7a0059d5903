"""The kernel library: one readable file or small folder a kernel."""
