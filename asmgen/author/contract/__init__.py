"""What callers of a kernel see, as data: parameters, arguments, rules, problems, variants."""
