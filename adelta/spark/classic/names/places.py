"""Where tables are: what Hadoop, and statements, call a place → addresses of adelta's."""

from __future__ import annotations

import re

from adelta.spark.options.read_write import absolute_uri

__all__ = ["uri_of"]

_FILE = re.compile(r"file:/(?!/)")


def uri_of(path: str) -> str:
    """The address of a table whose path stands in a statement or in a catalog.

    >>> uri_of("file:/data/orders")
    '/data/orders'
    """
    return absolute_uri(_FILE.sub("/", path, count=1) if _FILE.match(path) else path)
