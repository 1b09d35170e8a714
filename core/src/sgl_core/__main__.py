"""``python -m sgl_core`` is ``sgl``."""

import sys

from sgl_core.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
