"""The kernel library: a readable file or a small folder for each kernel."""
