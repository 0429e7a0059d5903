"""From instructions to steps and runs, and the order in which waves take them."""
