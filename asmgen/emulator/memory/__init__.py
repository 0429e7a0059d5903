"""Where memory instructions go, and what they move."""
