"""What follows the loop: accumulators scaled, converted and stored."""
