"""What else in a table names a column, so that the column cannot just change or go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from adelta.errors import (
    InvalidExpressionError,
    InvalidOptionError,
    InvalidUseError,
    SchemaMismatchError,
)
from adelta.kernel.schema.alteration import find_path, shown
from adelta.kernel.schema.names import walk_fields
from adelta.kernel.table_features import with_properties
from adelta.kernel.table_properties import CONSTRAINT_PREFIX, TableProperties, split_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.schema.types import StructType

__all__ = ["DROPPED", "check_independent", "column_path", "stats_columns_with"]

DROPPED = "be dropped"
"""The verb of `check_independent` for columns that go, and with them what is theirs alone."""


def column_path(schema: StructType, name: str) -> tuple[str, ...]:
    """The path of the column that a user names, with dots between names, as the schema spells it.

    Raises:
        SchemaMismatchError: there is no such column.
        InvalidOptionError: the name is none, or has to stand between backticks.
    """
    try:
        paths = split_columns(name)
    except ValueError as error:
        raise InvalidOptionError(f"the column name {name!r} {error}") from error
    if len(paths) != 1:
        raise InvalidOptionError(
            f"{name!r} names {len(paths)} columns; name one, and put a name that holds a comma "
            "between backticks"
        )
    try:
        return find_path(schema, paths[0])
    except SchemaMismatchError:
        if len(paths[0]) > 1 and (field := schema.field(name)) is not None:
            raise InvalidOptionError(
                f"{name!r} leads from a column {paths[0][0]!r} into it; the column that bears all "
                f"of that name is {shown((field.name,))}, between backticks"
            ) from None
        raise


def stats_columns_with(metadata: Metadata, path: tuple[str, ...], renamed: str | None) -> Metadata:
    """`metadata` whose list of columns for statistics follows one that is `renamed`, or gone."""
    stats = TableProperties.data_skipping_stats_columns
    listed = stats.read(metadata.configuration)
    folded = tuple(step.lower() for step in path)
    kept: list[tuple[str, ...]] = []
    for column in listed or ():
        if tuple(step.lower() for step in column[: len(path)]) != folded:
            kept.append(column)
        elif renamed is not None:
            kept.append((*column[: len(path) - 1], renamed, *column[len(path) :]))
    if listed is None or tuple(kept) == listed:
        return metadata
    return with_properties(metadata, {stats.key: ",".join(map(shown, kept))})


def check_independent(metadata: Metadata, path: tuple[str, ...], verb: str) -> None:
    """Refuse to let a column `verb` that a constraint or a generated column depends on.

    Raises:
        InvalidUseError: there is such an expression, or one that adelta does not understand.
    """
    from adelta.kernel.expressions.nodes import columns_of  # not loaded by what only makes tables
    from adelta.kernel.expressions.parse import parse_expression

    folded = tuple(step.lower() for step in path)
    for what, text, owner in _expressions(metadata):
        if verb == DROPPED and owner is not None and owner[: len(folded)] == folded:
            continue  # it goes together with the column
        try:
            used = columns_of(parse_expression(text))
        except InvalidExpressionError as error:
            raise InvalidUseError(
                f"column {shown(path)!r} cannot {verb}: {what} ({text}) may depend on it, which "
                f"adelta does not understand ({error}); drop it first"
            ) from error
        if any(_overlap(folded, tuple(step.lower() for step in column)) for column in used):
            raise InvalidUseError(
                f"column {shown(path)!r} cannot {verb}: {what} ({text}) depends on it; drop that "
                "first"
            )


def _overlap(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether one of two paths leads to, or into, what the other one leads to."""
    length = min(len(one), len(other))
    return one[:length] == other[:length]


def _expressions(metadata: Metadata) -> Iterator[tuple[str, str, tuple[str, ...] | None]]:
    """What it is, its text, and the path of the column that it belongs to."""
    for key, text in metadata.configuration.items():
        if key.lower().startswith(CONSTRAINT_PREFIX):
            yield f"the constraint {key[len(CONSTRAINT_PREFIX) :]!r}", text, None
    for path, field in walk_fields(metadata.schema):
        owner = tuple(step.lower() for step in path)
        generation = field.metadata.get("delta.generationExpression")
        if generation is not None:
            yield f"the generated column {shown(path)!r}", str(generation), owner
        invariant = field.metadata.get("delta.invariants")
        if invariant is not None:
            try:
                text = str(orjson.loads(invariant)["expression"]["expression"])
            except (orjson.JSONDecodeError, KeyError, TypeError):
                text = str(invariant)
            yield f"the invariant of column {shown(path)!r}", text, owner
