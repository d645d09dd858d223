"""The package `deltalake` of processes that have this folder on their path: adelta's."""

from __future__ import annotations

import sys

from adelta.deltalake.as_deltalake import install_as_deltalake

# The import system returns whatever `sys.modules` has once this module has run.
del sys.modules[__name__]
install_as_deltalake()
