"""Build it yourself: short exercises, from basic self-attention to a working Transformer.

    from glassformer.lessons import exercise
    exercise("scaled-scores")                        # the task
    exercise("scaled-scores").check(my_function)     # right, or a hint that names the slip

Read `exercise_check` (what an exercise is, how an answer is judged), the exercises
(`attention_exercises`, `model_exercises`: reference and cases; the known slips are in the TOML),
`solutions` (ours, which together are a Transformer), `exercise_track` (the order, the starter
files) and `learner_file` (a learner's file, checked in a process of its own).
"""
