"""``python -m adelta`` is the command ``adelta``."""

from __future__ import annotations

import sys

from adelta.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
