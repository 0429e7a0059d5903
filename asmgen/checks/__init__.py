"""What judges and completes placed code: wait counters, wait states, lint, explain, mutants."""
