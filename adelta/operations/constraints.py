"""ADD CONSTRAINT and DROP CONSTRAINT: named conditions that every row has to satisfy."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from adelta._arguments import checked
from adelta._concurrency import in_thread
from adelta.errors import InvalidOptionError, InvariantViolationError
from adelta.kernel.expressions.nodes import TRUE, Comparison, Not
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.resolve import bind_predicate
from adelta.kernel.scan_plan import plan_columns
from adelta.kernel.table_properties import CONSTRAINT_PREFIX
from adelta.operations.alter import AlterMetrics, altering
from adelta.operations.evolve import stage_metadata
from adelta.read.data_files import read_files
from adelta.table import roots_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.table import Table, TableOrAddress

__all__ = ["add_constraint", "constraint_key", "drop_constraint", "violations"]


@checked
async def add_constraint(
    table: TableOrAddress,
    name: str,
    expression: str,
    *,
    zone: str = "UTC",
    user_metadata: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> AlterMetrics:
    """Let every row of a table satisfy a condition, in Spark SQL, from now on.

    All rows that are there are read and held to it first; times that name no zone are of `zone`
    then. A condition that is null for a row is not satisfied.

    Raises:
        TableNotFoundError: there is no table.
        InvalidOptionError: there is a constraint of this name, or the name is empty.
        InvalidExpressionError: the condition cannot be parsed, or does not fit the schema.
        InvariantViolationError: a row that is there does not satisfy it.
        UnsupportedFeatureError: writing needs a table feature that adelta does not have.
        CommitConflictError: another commit came first and the work has to be done again.
        StorageError: the store refused or failed.
    """
    return await add_constraints(
        table,
        {name: expression},
        zone=zone,
        user_metadata=user_metadata,
        storage_options=storage_options,
    )


async def add_constraints(
    table: TableOrAddress,
    constraints: Mapping[str, str],
    *,
    zone: str = "UTC",
    user_metadata: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> AlterMetrics:
    """What `add_constraint` does, for conditions by their names, in one commit.

    Raises:
        InvalidOptionError: there is a constraint of a name, or a name is empty.
    """
    if not all(name.strip() for name in constraints):
        raise InvalidOptionError("a constraint needs a name")
    conditions = await in_thread(_parsed, constraints, zone)
    listed = [{"name": name, "expr": text} for name, text in constraints.items()]
    async with altering(
        table,
        "ADD CONSTRAINT",
        listed[0] if len(listed) == 1 else {"constraints": listed},
        user_metadata=user_metadata,
        storage_options=storage_options,
    ) as (tx, opened):
        for name in constraints:
            taken = constraint_key(tx.metadata, name)
            if taken is not None:
                raise InvalidOptionError(
                    f"{opened.uri} has a constraint {name!r} already "
                    f"({tx.metadata.configuration[taken]}); drop it first, or choose another name"
                )
        files = await tx.read()
        for name, condition in conditions.items():
            bound = await in_thread(bind_predicate, condition, tx.metadata.schema, zone=zone)
            broken = await violations(opened, tx.configuration, files, bound)
            if broken:
                raise InvariantViolationError(
                    f"{broken} rows of {opened.uri} do not satisfy {constraints[name]}, so it "
                    f"cannot become the constraint {name!r}; correct them first"
                )
        keys = {CONSTRAINT_PREFIX + name.lower(): text for name, text in constraints.items()}
        stored = {**tx.metadata.configuration, **keys}
        await in_thread(stage_metadata, tx, tx.metadata.with_configuration(stored))
    return AlterMetrics(tx.version)


@checked
async def drop_constraint(
    table: TableOrAddress,
    name: str,
    *,
    if_exists: bool = False,
    user_metadata: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> AlterMetrics:
    """Remove a constraint; one that is not there is an error, unless `if_exists`.

    Raises:
        TableNotFoundError: there is no table.
        InvalidOptionError: there is no such constraint.
        UnsupportedFeatureError: writing needs a table feature that adelta does not have.
        CommitConflictError: another commit came first and the work has to be done again.
        StorageError: the store refused or failed.
    """
    async with altering(
        table,
        "DROP CONSTRAINT",
        {"name": name},
        user_metadata=user_metadata,
        storage_options=storage_options,
    ) as (tx, opened):
        key = constraint_key(tx.metadata, name)
        if key is not None:
            rest = dict(tx.metadata.configuration)
            tx.describe(expr=rest.pop(key), existed="true")
            await in_thread(stage_metadata, tx, tx.metadata.with_configuration(rest))
        elif not if_exists:
            raise InvalidOptionError(
                f"{opened.uri} has no constraint {name!r}; leave it be, or say if_exists=True"
            )
    return AlterMetrics(tx.version)


def _parsed(constraints: Mapping[str, str], zone: str) -> dict[str, Node]:
    return {name: parse_expression(text, zone=zone) for name, text in constraints.items()}


def constraint_key(metadata: Metadata, name: str) -> str | None:
    """The property that holds the constraint of a name, whatever its case."""
    wanted = CONSTRAINT_PREFIX + name.lower()
    return next((key for key in metadata.configuration if key.lower() == wanted), None)


async def violations(
    table: Table, configuration: TableConfiguration, files: Sequence[AddFile], condition: Node
) -> int:
    """How many rows of `files` do not satisfy `condition`.

    Raises:
        InvalidExpressionError: the condition does not fit the schema.
    """
    plan = await in_thread(
        plan_columns,
        configuration.schema,
        columns=[],
        where=Not(Comparison("<=>", condition, TRUE)),
        partition_columns=configuration.partition_columns,
        mapping_mode=configuration.column_mapping_mode,
    )
    total = 0
    async with aclosing(read_files(roots_of(table), plan, files)) as tables:
        async for found in tables:
            total += found.num_rows
    return total
