"""The state of waves: registers, modes, LDS and device memory, what a dispatch fills in; what compiled loops need of the host."""
