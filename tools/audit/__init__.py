"""`asmgen audit`: what lint and the race proof say of every code object in files, folders, libraries and wheels."""
