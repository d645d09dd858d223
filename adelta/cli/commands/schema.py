"""A table's columns. With --json: the schema as Delta's log writes it, one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.cli.arguments import add_table, add_version, open_snapshot, open_table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection, Sequence

    from adelta.console.render import Output
    from adelta.kernel.schema.types import StructType

__all__ = ["columns", "configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_table(parser)
    add_version(parser)


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Print the columns."""
    async with open_table(arguments) as table:
        snapshot = await open_snapshot(table, arguments)
    if output.as_json:
        output.raw(snapshot.metadata.schema_string)
    else:
        output.table(*columns(snapshot.delta_schema, snapshot.partition_columns))


def columns(
    schema: StructType, partition_columns: Collection[str]
) -> tuple[Sequence[str], list[tuple[object, ...]]]:
    """Headings, and a row for each column; headings that would stand over nothing are left out."""
    rows = [
        (
            field.name,
            str(field.type),
            None if field.nullable else "not null",
            "partition" if field.name in partition_columns else None,
            field.metadata.get("comment"),
        )
        for field in schema
    ]
    headings = ("column", "type", "null", "role", "comment")
    used = [i for i in range(len(headings)) if i < 2 or any(row[i] is not None for row in rows)]
    return [headings[i] for i in used], [tuple(row[i] for i in used) for row in rows]
