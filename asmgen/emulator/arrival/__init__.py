"""When data has arrived: poison and waits, findings, accesses to LDS in flight and their races, wait states."""
