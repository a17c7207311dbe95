"""A run recorded: operators with their real values, memory, modules and source lines."""
