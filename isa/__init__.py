"""What the hardware is: registers, opcodes, layouts, wait-state rules, LDS banks, number formats. No policy."""
