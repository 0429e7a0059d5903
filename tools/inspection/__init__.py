"""`asmgen inspect`: what it finds out about a kernel, as text, JSON and pictures."""
