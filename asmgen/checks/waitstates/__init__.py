"""Wait states: the rows of isa.waitstates matched, lacks found and filled."""
