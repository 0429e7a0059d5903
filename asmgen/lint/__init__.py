"""lint: what is wrong, or may be, with anyone's kernel, each finding under a rule with an id and an explanation."""
