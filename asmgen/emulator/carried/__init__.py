"""How a second value is carried beside each value of registers, LDS and memory."""
