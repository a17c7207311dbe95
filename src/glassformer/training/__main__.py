"""`python -m glassformer.training`: training without the command line's dependencies."""

import sys

from glassformer.training.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
