"""Wait counters: one model (`ledger`, `flow`) that inserts (`insert`), verifies and explains."""
