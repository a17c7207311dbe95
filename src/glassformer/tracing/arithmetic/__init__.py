"""The arithmetic of a cell: expressions, the rule of each operator, values in float64."""
