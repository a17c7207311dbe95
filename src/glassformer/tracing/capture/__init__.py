"""Recording a run: operators with their actual values, memory, modules and source lines."""
