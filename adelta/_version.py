"""`__version__`: the version that is installed, by its metadata, which take long to ask."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

__all__ = ["__version__"]

try:
    __version__ = version("adelta")
except PackageNotFoundError:  # a source tree, or an archive sent to Spark's workers
    __version__ = "source"
