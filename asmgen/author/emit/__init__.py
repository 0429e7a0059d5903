"""The builder: mnemonics as methods, streams, blocks, LDS maps; a kernel in the making and a finished one."""
