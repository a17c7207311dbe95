"""Shape annotations are checked in all tests, and nothing reaches for a network.

The variables are set before anything of ours is imported.
"""

import os

os.environ["GLASSFORMER_CHECK_SHAPES"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
from jaxtyping import install_import_hook

install_import_hook("glassformer.nn", "beartype.beartype")
torch.set_num_threads(1)  # the suite runs one process a core
