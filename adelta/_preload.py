"""Everything that is otherwise loaded when it is first used, loaded at once."""

from __future__ import annotations

import logging
import sys
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from adelta._arrow_values import arrow_is_ready

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["preload"]

_log = logging.getLogger("adelta.preload")

_OF_ADELTA = (
    *("_handles", "_version", "errors", "progress", "retry", "scan", "snapshot", "table"),
    *("transaction", "changes", "commit", "consumers", "kernel", "lake", "log", "operations"),
    *("parquet", "read", "sql", "storage", "sync", "write"),
)
_OF_OTHERS = (
    *("numpy", "pyarrow.compute", "pyarrow.parquet", "anyio._backends._asyncio", "anyio.abc"),
    *("anyio.streams.memory", "importlib.metadata", "duckdb", "pyarrow.acero", "resource"),
    *("encodings.idna", "stringprep", "importlib.resources", "tzdata"),
)
_FOR_STORES = (  # credentials, checksums, locks of commits; SFTP, which an extra is for
    *("aiobotocore.session", "aiobotocore.config", "botocore.exceptions", "awscrt.checksums"),
    *("google.oauth2.service_account", "google.auth.transport.requests", "azure.identity"),
    *("azure.core.exceptions", "gssapi", "asyncpg", "fsspec.implementations.sftp"),
)


def preload() -> None:
    """Load what reading and changing tables needs, wherever they are: a second or two.

    Otherwise each part is loaded when it is first used, which holds the event loop up for as long,
    and fails with an `OSError` where the process has no file descriptors left. A service calls it
    before its loop runs; calling it again does nothing. Parts whose optional library is not
    installed, or cannot be loaded, are left out, and so are those for Spark, Iceberg, the command
    line, plots and other libraries' data frames, file systems of fsspec other than SFTP, and
    packages that make commit owners known.
    """
    for name in (*_OF_OTHERS, *_FOR_STORES, *(f"adelta.{each}" for each in _OF_ADELTA)):
        for module in _with_those_below(name):
            _load(module)
    arrow_is_ready()  # which looks for pandas, once


def _with_those_below(name: str) -> Iterator[str]:
    yield name
    if name.startswith("adelta."):
        for below in iter_modules(getattr(sys.modules.get(name), "__path__", ()), f"{name}."):
            yield from _with_those_below(below.name)


def _load(name: str) -> None:
    try:
        import_module(name)
    except ImportError as error:
        if (error.name or "").split(".")[0] == "adelta":
            raise
        if not isinstance(error, ModuleNotFoundError):
            _log.warning("%s is installed and cannot be loaded: %s", name, error)
