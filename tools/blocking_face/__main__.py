"""Writes the blocking face, or checks that it is what would be written.

Usage, in the folder of the checkout: ``python -m tools.blocking_face [--check]``. It imports
neither face, and so works also while the two do not fit together.
"""

from __future__ import annotations

import sys

from tools.blocking_face.program import main

if __name__ == "__main__":
    sys.exit(main())
