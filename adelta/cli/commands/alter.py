"""Change a table: its properties, columns, constraints and features. One action a call.

A column inside another one is named with dots (address.city, prices.element). Types are written as
in SQL: bigint, decimal(9,2), array<string>, struct<name: string, km: double>.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import adelta
from adelta.cli.arguments import add_table, add_user_metadata, key_value, open_table, positive
from adelta.kernel.schema.type_text import parse_column
from adelta.kernel.schema.types import StructType

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from adelta.console.render import Output
    from adelta.operations import AlterMetrics

    Verb = Callable[..., Awaitable[AlterMetrics]]

__all__ = ["configure", "run"]

_OURS = ("catalog", "command", "json", "made_of", "options", "uri", "verb")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_table(parser)
    add_user_metadata(parser)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    def action(name: str, summary: str, verb: Verb) -> argparse.ArgumentParser:
        """An action whose arguments bear the names that the verb has for them."""
        added = actions.add_parser(name, help=summary, description=summary)
        added.set_defaults(verb=verb, made_of={})
        suppress = argparse.SUPPRESS  # what stands before the action counts as well
        added.add_argument("--json", action="store_true", default=suppress, help=suppress)
        return added

    new = action("set-properties", "set properties; the others stay", adelta.set_properties)
    new.add_argument("properties", metavar="KEY=VALUE", type=key_value, nargs="+")
    new.set_defaults(made_of={"properties": dict})
    new = action("unset-properties", "remove properties", adelta.unset_properties)
    new.add_argument("names", metavar="KEY", nargs="+")
    _if_exists(new)
    new = action("add-columns", "add columns, each given as NAME:TYPE", adelta.add_columns)
    new.add_argument("columns", metavar="NAME:TYPE", nargs="+")
    new.set_defaults(made_of={"columns": _schema})
    new.add_argument("--parent", metavar="COLUMN", help="the struct whose fields they become")
    _place(new, "they")
    new = action("rename-column", "give a column another name", adelta.rename_column)
    new.add_argument("column", metavar="COLUMN")
    new.add_argument("new_name", metavar="NAME")
    new = action("drop-columns", "remove columns", adelta.drop_columns)
    new.add_argument("columns", metavar="COLUMN", nargs="+")
    _if_exists(new)
    new = action(
        "change-column",
        "change a column's type, comment, nullability or place",
        adelta.change_column,
    )
    new.add_argument("column", metavar="COLUMN")
    new.add_argument("--type", metavar="TYPE", help="a wider type")
    nulls = new.add_mutually_exclusive_group()
    nulls.add_argument("--nullable", dest="nullable", action="store_true", default=None)
    nulls.add_argument("--not-null", dest="nullable", action="store_false", default=None)
    new.add_argument("--comment", metavar="TEXT", help="an empty one takes it away")
    new.add_argument("--default", metavar="SQL", help="a constant; an empty one takes it away")
    _place(new, "it")
    new.add_argument(
        "--sync-identity", action="store_true", help="number on behind the values that are there"
    )
    new = action("add-constraint", "let every row satisfy a condition", adelta.add_constraint)
    new.add_argument("name", metavar="NAME")
    new.add_argument("expression", metavar="CONDITION", help="in SQL, such as 'km >= 0'")
    new = action("drop-constraint", "remove a constraint", adelta.drop_constraint)
    new.add_argument("name", metavar="NAME")
    _if_exists(new)
    new = action("cluster-by", "name the columns that rows are kept together by", adelta.cluster_by)
    new.add_argument("columns", metavar="COLUMN", nargs="*", help="none ends clustering")
    new = action("add-feature", "let the table support a table feature", adelta.add_feature)
    new.add_argument("name", metavar="FEATURE")
    new = action(
        "upgrade-protocol",
        "let the table support all features that protocol versions stand for",
        adelta.upgrade_protocol,
    )
    new.add_argument("reader_version", metavar="READER", type=positive)
    new.add_argument("writer_version", metavar="WRITER", type=positive)
    new = action(
        "drop-feature", "let the table no longer support a table feature", adelta.drop_feature
    )
    new.add_argument("name", metavar="FEATURE")
    new.add_argument(
        "--truncate-history",
        action="store_true",
        help="delete the versions that have used it; takes two calls, a day between them",
    )
    _if_exists(new)


def _if_exists(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--if-exists", action="store_true", help="what is not there is no error")


def _place(parser: argparse.ArgumentParser, what: str) -> None:
    where = parser.add_mutually_exclusive_group()
    go = "go" if what == "they" else "goes"
    where.add_argument("--first", action="store_true", help=f"{what} {go} in front of the others")
    where.add_argument("--after", metavar="COLUMN", help=f"{what} {go} behind this one")


def _schema(columns: Iterable[str]) -> StructType:
    return StructType(tuple(map(parse_column, columns)))


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Make the change, and print the version that it became."""
    async with open_table(arguments, write=True) as table:
        metrics = await arguments.verb(table, **_given(arguments))
    if output.as_json:
        output.line({"version": metrics.version})
    elif metrics.version is None:
        output.say("Nothing to change.")
    else:
        output.say(f"Version {metrics.version} has the change.")


def _given(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the action's verb is called with, beside the table."""
    given = {name: value for name, value in vars(arguments).items() if name not in _OURS}
    return given | {name: make(given[name]) for name, make in arguments.made_of.items()}
