"""Arguments that several commands share, and what they open.

Every command that reads a table takes its address and any number of ``--option key=value``; the
names are those of the environment variables in lower case (``aws_region``, ``aws_endpoint_url``).
"""

from __future__ import annotations

import argparse
from datetime import timedelta
from typing import TYPE_CHECKING

import adelta
from adelta.kernel.table_properties import parse_interval

if TYPE_CHECKING:
    from adelta import Snapshot, Table

__all__ = [
    "add_storage",
    "add_table",
    "add_version",
    "interval",
    "key_value",
    "natural",
    "open_snapshot",
    "open_table",
    "positive",
]


def natural(text: str) -> int:
    """A whole number that is not negative."""
    return _whole(text, least=0)


def positive(text: str) -> int:
    """A whole number above zero."""
    return _whole(text, least=1)


def _whole(text: str, *, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of {least} or more")
    return number


def interval(text: str) -> timedelta:
    """A duration such as ``7 days``."""
    try:
        return timedelta(milliseconds=parse_interval(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error}") from error


def key_value(text: str) -> tuple[str, str]:
    """A name and a value, with ``=`` between them."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form key=value")
    return key.strip(), value


def add_storage(parser: argparse.ArgumentParser) -> None:
    """Add ``--option``."""
    parser.add_argument(
        "--option",
        dest="options",
        metavar="KEY=VALUE",
        type=key_value,
        action="append",
        default=[],
        help="a storage option, such as aws_region=eu-west-1; may be repeated",
    )


def add_table(parser: argparse.ArgumentParser) -> None:
    """Add the table's address, ``--option`` and ``--json``."""
    parser.add_argument("uri", metavar="URI", help="the table: a folder, file://... or s3://...")
    add_storage(parser)
    parser.add_argument("--json", action="store_true", help="print JSON lines, for programs")


def add_version(parser: argparse.ArgumentParser) -> None:
    """Add ``--version`` and ``--timestamp``, of which one may be given."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--version", type=natural, metavar="N", help="the table as of version N")
    which.add_argument(
        "--timestamp",
        metavar="TIME",
        help="the table as of this ISO-8601 time (UTC if it says none)",
    )


def open_table(arguments: argparse.Namespace) -> Table:
    """The table that the arguments name; nothing is read yet."""
    return adelta.open_table(arguments.uri, storage_options=dict(arguments.options))


async def open_snapshot(table: Table, arguments: argparse.Namespace) -> Snapshot:
    """The version of the table that the arguments ask for."""
    return await table.snapshot(version=arguments.version, timestamp=arguments.timestamp)
