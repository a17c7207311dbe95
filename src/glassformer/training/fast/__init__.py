"""What makes training fast: each part replaces a plain one and is tested equal to it."""
