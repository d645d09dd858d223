"""Arguments that several commands share, and what they open.

Every command that reads a table takes its address and any number of ``--option key=value``; the
names are those of the environment variables in lower case (``aws_region``, ``aws_endpoint_url``).
With ``--catalog`` it takes the name that a Unity Catalog has for the table in the address's place.
"""

from __future__ import annotations

import argparse
import os
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import adelta
from adelta.kernel.table_properties import parse_interval

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from adelta import Snapshot, Table, UnityCatalogClient

__all__ = [
    "add_application",
    "add_definition",
    "add_dry_run",
    "add_rows",
    "add_storage",
    "add_table",
    "add_user_metadata",
    "add_version",
    "application",
    "catalog_client",
    "interval",
    "key_value",
    "name_list",
    "natural",
    "open_snapshot",
    "open_table",
    "positive",
]


CATALOG_TOKEN = "ADELTA_CATALOG_TOKEN"
"""The variable with the catalog's token, which is no argument: those all users of a machine see."""


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


def application(text: str) -> tuple[str, int]:
    """An application and the number of its write, with ``=`` between them."""
    name, number = key_value(text)
    return name, natural(number)


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


def name_list(text: str) -> list[str]:
    """Names with commas between them."""
    return [name.strip() for name in text.split(",") if name.strip()]


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


def add_table(parser: argparse.ArgumentParser, *, catalog: bool = True) -> None:
    """Add the table's address, ``--option``, ``--json`` and, where it is of use, ``--catalog``."""
    parser.add_argument("uri", metavar="URI", help="the table: a folder, file://... or s3://...")
    add_storage(parser)
    if catalog:
        parser.add_argument(
            "--catalog",
            metavar="ENDPOINT",
            help="the address of a Unity Catalog; URI is then the table's name in it, "
            f"catalog.schema.table, and the variable {CATALOG_TOKEN} holds the token",
        )
    else:
        parser.set_defaults(catalog=None)
    parser.add_argument("--json", action="store_true", help="print JSON lines, for programs")


def add_definition(parser: argparse.ArgumentParser) -> None:
    """Add what a new table is made with: partitioning, clustering, properties."""
    layout = parser.add_mutually_exclusive_group()
    layout.add_argument(
        "--partition-by", type=name_list, metavar="A,B", help="partition columns of a new table"
    )
    layout.add_argument(
        "--cluster-by", type=name_list, metavar="A,B", help="clustering columns of a new table"
    )
    parser.add_argument(
        "--property",
        dest="properties",
        metavar="KEY=VALUE",
        type=key_value,
        action="append",
        default=[],
        help="a property of a new table; may be repeated",
    )


def add_rows(parser: argparse.ArgumentParser) -> None:
    """Add the choice of the rows that a command changes: ``--where``, or ``--all``."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--where", metavar="EXPRESSION", help="the rows where this Spark SQL expression is true"
    )
    which.add_argument("--all", action="store_true", help="all rows")


def add_dry_run(parser: argparse.ArgumentParser) -> None:
    """Add ``--dry-run``."""
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="say how many rows it is about, and write nothing",
    )


def add_application(parser: argparse.ArgumentParser) -> None:
    """Add ``--txn``."""
    parser.add_argument(
        "--txn",
        metavar="APP=N",
        type=application,
        help="an application and the number of its write, which is skipped where it has been done",
    )


def add_user_metadata(parser: argparse.ArgumentParser) -> None:
    """Add ``--user-metadata``."""
    parser.add_argument(
        "--user-metadata", metavar="TEXT", help="what the table's history is to say of it as well"
    )


def add_version(parser: argparse.ArgumentParser) -> None:
    """Add ``--version`` and ``--timestamp``, of which one may be given."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--version", type=natural, metavar="N", help="the table as of version N")
    which.add_argument(
        "--timestamp",
        metavar="TIME",
        help="the table as of this ISO-8601 time (UTC if it says none)",
    )


def catalog_client(arguments: argparse.Namespace) -> UnityCatalogClient | None:
    """The client of the catalog that the arguments name; None where they name none.

    Raises:
        InvalidOptionError: the address or the table's name is not one.
    """
    if arguments.catalog is None:
        return None
    token = os.environ.get(CATALOG_TOKEN)
    return adelta.UnityCatalogClient(arguments.catalog, arguments.uri, token=token)


@asynccontextmanager
async def open_table(arguments: argparse.Namespace, *, write: bool = False) -> AsyncIterator[Table]:
    """The table that the arguments name; nothing of it is read yet.

    A catalog is asked where it is, and for credentials that allow to `write`, or only to read.

    Raises:
        TableNotFoundError: the catalog has no such table.
        StorageError: the catalog refused or failed.
    """
    uri, options = arguments.uri, dict(arguments.options)
    client = catalog_client(arguments)
    try:
        if client is not None:
            uri = await client.location()
            options = await client.storage_options(write=write) | options
        async with adelta.open_table(uri, storage_options=options, catalog=client) as table:
            yield table
    finally:
        if client is not None:
            await client.aclose()


async def open_snapshot(table: Table, arguments: argparse.Namespace) -> Snapshot:
    """The version of the table that the arguments ask for."""
    return await table.snapshot(version=arguments.version, timestamp=arguments.timestamp)
