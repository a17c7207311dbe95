"""`python -m glassformer.training`: training where only torch and its like are installed."""

import sys

from glassformer.training.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
