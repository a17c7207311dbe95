"""What makes training faster: learners that replace the plain one as a whole.

`acceleration` chooses between compiling, CUDA graphs and neither; `graph_learner` and
`data_parallel` hold the learners. Each takes the same steps as the plain one, `training.learner`,
and tests hold it to that.
"""
