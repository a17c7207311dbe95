"""`python -m glassformer` is the command `glassformer`."""

import sys

from glassformer.cli import run


def main() -> None:
    """The console script's entry."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
