"""What stands at one instruction and why: what is in flight, which waits and wait states it needs."""
