"""`python -m kdkit`, which is the command `kdkit`."""

import sys

from kdkit.cli.main import main

sys.exit(main())
