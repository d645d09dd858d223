"""Clones as `DeltaTable` makes them: to a path, or under a name of the session's catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError
from adelta.kernel.expressions.literals import literal_of
from adelta.operations.clone import clone
from adelta.spark.cluster.task_executor import on_cluster
from adelta.spark.options.hadoop_conf import allow_origin
from adelta.spark.options.read_write import absolute_uri
from adelta.spark.options.session_settings import session_zone
from adelta.spark.statements.tables import run_clone
from adelta.spark.tables.names import location_of
from adelta.spark.translate.identifiers import identifier_parts, path_named
from adelta.sql.statements import AsOf, CreateClone, TableName
from adelta.storage.allowed_roots import ALLOWED_ROOTS, with_root

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from adelta.operations.clone import CloneMetrics
    from adelta.spark.tables.access import TableAccess
    from adelta.table import Table

__all__ = ["CloneWish", "clone_to"]


@dataclass(frozen=True, slots=True)
class CloneWish:
    """What a clone is to be like, and of which version; of the latest one where none is named."""

    shallow: bool
    replace: bool
    properties: Mapping[str, str] | None = None
    version: int | None = None
    timestamp: datetime | None = None


def clone_to(
    access: TableAccess, target: str, wish: CloneWish
) -> tuple[str, str | None, dict[str, str]]:
    """Clone a table to a path or a name: where the clone is, its full name, how it is opened.

    Raises:
        InvalidOptionError: `target` is a name, and the table is one of a Unity Catalog.
        AdeltaError: as `adelta.clone` does.
    """
    path = path_named(target) or (target if "/" in target else None)
    if path is None:
        return _to_name(access, target, wish)
    uri, beside, there = absolute_uri(path), access.storage_options, access.to_read()

    async def copied(to: Table) -> CloneMetrics:
        async with there.opened() as origin:
            return await clone(
                origin,
                to,
                shallow=wish.shallow,
                version=wish.version,
                timestamp=wish.timestamp,
                replace=wish.replace,
                properties=wish.properties,
            )

    done = on_cluster(access.spark, uri, copied, beside)
    options = dict(beside)
    if done.reads_from is not None:
        allow_origin(access.spark, done.reads_from)
        options[ALLOWED_ROOTS] = with_root(options.get(ALLOWED_ROOTS), done.reads_from)
    return uri, None, options


def _to_name(
    access: TableAccess, target: str, wish: CloneWish
) -> tuple[str, str | None, dict[str, str]]:
    spark = access.spark
    if access.in_catalog is not None:
        raise InvalidOptionError(
            f"{target!r} is a name, and the table is one of a catalog of its own: clone it to a "
            "path, such as delta.`/lake/copy`"
        )
    as_of = None
    if wish.version is not None or wish.timestamp is not None:
        moment = None if wish.timestamp is None else literal_of(wish.timestamp)
        as_of = AsOf(wish.version, moment)
    statement = CreateClone(
        TableName(identifier_parts(target)),
        TableName((), access.path),
        "create or replace" if wish.replace else "create",
        wish.shallow,
        as_of,
        wish.properties or {},
    )
    run_clone(spark, statement, session_zone(spark))
    location, name = location_of(spark, target)
    return location, name, {}
