"""The arithmetic of a cell: expressions, one rule per operator, evaluation in float64."""
