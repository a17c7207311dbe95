"""A trace as one page (being written)."""
