"""A kernel built, its launches run and compared with its reference: what commands and proofs share."""
