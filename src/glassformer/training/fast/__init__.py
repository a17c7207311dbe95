"""What makes training faster: learners that replace the plain one as a whole.

`acceleration` chooses between compiling, CUDA graphs and neither; `cuda_graph` and `data_parallel`
have the learners. Each makes the same updates as `training.learner.Learner`, and a test holds it to
that.
"""
