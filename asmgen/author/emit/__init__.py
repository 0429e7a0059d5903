"""The builder of instructions: mnemonics as methods, streams, blocks, LDS maps, and the finished kernel."""
