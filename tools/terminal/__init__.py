"""What commands print to a terminal: tables as plain text, a line of progress."""
