"""An alias package that puts adelta in the place of `deltalake` when it is imported."""

from __future__ import annotations

import sys

from adelta.deltalake.as_deltalake import install_as_deltalake

# After this module has run, the import system returns the module that `sys.modules` has by then.
del sys.modules[__name__]
install_as_deltalake()
