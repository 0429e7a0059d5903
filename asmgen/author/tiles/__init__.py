"""Register tiles, shared tiles and global views: shapes, layouts and the solver that places them."""
