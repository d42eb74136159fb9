"""`python -m kdkit`, which is the command `kdkit`."""

import sys

from kdkit.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
