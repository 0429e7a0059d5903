"""The instruction tables as data, one file an encoding family; `asmgen.isa.table` looks rows up."""
