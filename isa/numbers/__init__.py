"""The parts of asmgen.isa.formats: formats as data, conversions, blocks."""
