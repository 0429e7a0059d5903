"""Instructions bound to registers: one at a time, and whole runs compiled."""
