"""Merge rows of a file, of standard input or of another table into a table.

Clauses are taken in the order in which they are given: of those of a kind, the first one whose
condition is true for a row takes it. The two sides are called target and source:

adelta merge lake/city new.parquet --on "target.id = source.id"
    --delete "source.gone" --update-all --insert-all "NOT source.gone"
"""

from __future__ import annotations

import argparse
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import adelta
from adelta.cli.arguments import add_dry_run, add_table, open_table
from adelta.cli.sources import add_source, open_source
from adelta.console.progress_bar import progress_bar
from adelta.console.render import Output, camel_case, counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta import Merge

__all__ = ["configure", "run"]

_CLAUSES = {
    "--update-all": "of rows that match, set all columns",
    "--delete": "delete rows that match",
    "--insert-all": "insert source rows that match none",
    "--delete-missing": "delete rows of the table that no source row matches",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_table(parser)
    add_source(parser)
    parser.add_argument("--on", required=True, metavar="CONDITION", help="which rows match")
    for flag, summary in _CLAUSES.items():
        parser.add_argument(
            flag,
            action=_Clause,
            dest="clauses",
            nargs="?",
            metavar="CONDITION",
            default=[],
            help=f"{summary}, where the condition is true of them",
        )
    parser.add_argument(
        "--merge-schema", action="store_true", help="add columns that only the source has"
    )
    add_dry_run(parser)


class _Clause(argparse.Action):
    """Keeps clauses of all kinds in their order."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        namespace.clauses = [*namespace.clauses, (option_string, values)]


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Merge, and say what became of rows.

    Raises:
        InvalidOptionError: the source cannot be read.
    """
    async with AsyncExitStack() as stack:
        table = await stack.enter_async_context(open_table(arguments, write=True))
        told = stack.enter_context(progress_bar())
        source = await stack.enter_async_context(
            open_source(
                arguments.source,
                arguments.format,
                table.storage_options,
                like=await table.snapshot(),
            )
        )
        merge = adelta.merge(
            table,
            source,
            arguments.on,
            schema_mode="merge" if arguments.merge_schema else None,
            on_progress=told,
        )
        for flag, condition in arguments.clauses:
            merge = _with_clause(merge, flag, condition)
        done = await merge.execute(dry_run=arguments.dry_run)
    if output.as_json:
        output.line(camel_case(done))
    elif arguments.dry_run:
        output.say(
            f"Would insert {counted(done.num_target_rows_inserted, 'row')}, update "
            f"{done.num_target_rows_updated:,} and delete {done.num_target_rows_deleted:,}."
        )
    elif done.version is None:
        output.say(f"{counted(done.num_source_rows, 'source row')}, and nothing to change.")
    else:
        output.say(
            f"Version {done.version}: {counted(done.num_target_rows_inserted, 'row')} inserted, "
            f"{done.num_target_rows_updated:,} updated, {done.num_target_rows_deleted:,} deleted."
        )


def _with_clause(merge: Merge, flag: str, condition: str | None) -> Merge:
    match flag:
        case "--update-all":
            return merge.when_matched_update_all(condition)
        case "--delete":
            return merge.when_matched_delete(condition)
        case "--insert-all":
            return merge.when_not_matched_insert_all(condition)
        case _:
            return merge.when_not_matched_by_source_delete(condition)
