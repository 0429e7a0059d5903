"""The machine's state: registers, memory, modes, what a dispatch fills in."""
