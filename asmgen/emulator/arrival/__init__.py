"""The checks: what has arrived, races, what nobody wrote, wait states."""
