"""The claims of `asmgen prove`: algebra, address terms, expression hashes, and the launches that they need."""
