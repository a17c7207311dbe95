"""The problems that can be learnt.

`definitions` has their settings, `readers` finds for each the function that reads its data, and
what comes of that is a `prepared_problem.PreparedProblem`. Nothing is imported here: the settings
must not wait for torch.
"""
