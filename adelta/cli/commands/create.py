"""Create an empty table, or replace a table's definition and remove its rows.

Columns are written as in SQL, and so are their types (array<string>, struct<a: int, b: double>):

adelta create lake/trips --columns "id bigint NOT NULL, city string, fare decimal(9,2)"

--like takes the columns of a file or of a table. With --catalog the catalog gives the table its
place and its name.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

import adelta
from adelta.cli.arguments import (
    add_definition,
    add_table,
    catalog_client,
    name_list,
    open_table,
)
from adelta.cli.sources import open_source
from adelta.errors import InvalidOptionError
from adelta.kernel.schema.arrow import to_arrow_schema
from adelta.kernel.schema.type_text import parse_columns

if TYPE_CHECKING:
    from adelta.console.render import Output

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_table(parser)
    parser.add_argument("--columns", metavar="COLUMNS", help="such as 'id bigint, city string'")
    parser.add_argument("--like", metavar="SOURCE", help="a file or a table with these columns")
    parser.add_argument(
        "--identity",
        type=name_list,
        default=[],
        metavar="A,B",
        help="columns in which the table numbers its rows, in front of the others",
    )
    add_definition(parser)
    parser.add_argument("--name", help="a name for the table")
    parser.add_argument("--description", metavar="TEXT", help="what the table is for")
    there = parser.add_mutually_exclusive_group()
    there.add_argument(
        "--if-not-exists", action="store_true", help="leave a table that is there as it is"
    )
    there.add_argument(
        "--replace", action="store_true", help="replace a table that is there, and its rows"
    )
    there.add_argument(
        "--or-replace", action="store_true", help="replace a table that is there, or create one"
    )


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Create or replace the table, and print its version."""
    definition: dict[str, Any] = {
        "schema": await _schema(arguments),
        "partition_by": arguments.partition_by or (),
        "cluster_by": arguments.cluster_by or (),
        "name": arguments.name,
        "description": arguments.description,
    }
    properties = dict(arguments.properties)
    options = dict(arguments.options)
    client = catalog_client(arguments)
    if arguments.replace or arguments.or_replace:
        if client is not None and arguments.or_replace:
            raise InvalidOptionError(
                "whether a catalog has a table is asked by --replace; leave --or-replace out"
            )
        async with open_table(arguments, write=True) as table:
            done = await adelta.replace_table(
                table, properties=properties, or_create=arguments.or_replace, **definition
            )
        uri, version = table.uri, done.version
    elif client is not None:
        uri, version = await _create_in(client, definition, properties, options)
    else:
        mode: Literal["error", "ignore"] = "ignore" if arguments.if_not_exists else "error"
        async with await adelta.create_table(
            arguments.uri, properties=properties, mode=mode, storage_options=options, **definition
        ) as table:
            uri, version = table.uri, (await table.snapshot()).version
    if output.as_json:
        output.line({"location": uri, "version": version})
    else:
        output.say(f"The table at {uri} is at version {version}.")


async def _create_in(
    client: adelta.UnityCatalogClient,
    definition: dict[str, Any],
    properties: dict[str, str],
    options: dict[str, str],
) -> tuple[str, int]:
    """Create a table that a catalog manages, at the place that it gives, and have it named."""
    try:
        staged = await client.stage_table()
        async with await adelta.create_table(
            staged.location,
            properties={**properties, **staged.properties},
            storage_options={**staged.storage_options, **options},
            catalog=client,
            **definition,
        ) as table:
            first = await table.snapshot(version=0)
            await client.register_table(staged, first)
            return table.uri, first.version
    finally:
        await client.aclose()


async def _schema(arguments: argparse.Namespace) -> pa.Schema:
    """The columns that are asked for.

    Raises:
        InvalidOptionError: they cannot be read, or there are none.
    """
    fields = [adelta.identity_column(name) for name in arguments.identity]
    if arguments.columns is not None:
        fields += to_arrow_schema(parse_columns(arguments.columns))
    if arguments.like is not None:
        async with open_source(arguments.like, None, dict(arguments.options)) as source:
            fields += source.schema
    if not fields:
        raise InvalidOptionError("a table has columns; give them by --columns or --like")
    return pa.schema(fields)
