"""Wait counters: what is in flight, which waits are needed, and whether those that stand serve."""
