"""CREATE TABLE in a Unity Catalog: the catalog gives the place, and then the name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from adelta.errors import InvalidOptionError
from adelta.spark.classic.names.definitions import Definition, StagedTable, completed, created
from adelta.spark.options.commits import session_commits
from adelta.spark.options.unity import place_in_catalog
from adelta.spark.translate.identifiers import FORMATS
from adelta.sync._portal import call
from adelta.table import open_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from adelta.spark.classic.names.answers import SessionOf
    from adelta.spark.options.unity import PlaceInCatalog
    from adelta.write.commit_options import CommitOptions

__all__ = ["stage_in_catalog"]


def stage_in_catalog(
    session_of: SessionOf, spark: SparkSession, name: tuple[str, str, str], said: Mapping[str, Any]
) -> StagedTable:
    """A table that a catalog is to manage, as `Definition.java` says it; `name` has all parts.

    Raises:
        InvalidOptionError: a Delta table has no such thing, or the catalog has no such tables.
        StorageError: the catalog refused or failed.
    """
    given: Mapping[str, str] = said["properties"]
    if given.get("provider", FORMATS[0]).lower() not in FORMATS:
        raise InvalidOptionError(
            f"{'.'.join(name)} cannot be a table of {given['provider']}: those that are created in "
            "a Unity Catalog here are Delta tables, USING delta"
        )
    if "location" in given:
        raise InvalidOptionError(
            f"the catalog says where {'.'.join(name)} is to be: leave LOCATION out"
        )
    definition = Definition.parse({**said, "path": "/", "mode": "create"})
    return _TableInCatalog(session_of, definition, place_in_catalog(spark, *name))


class _TableInCatalog(StagedTable):
    """One that has no name until it is there: a failure before leaves a place that nobody has."""

    def __init__(
        self, session_of: SessionOf, definition: Definition, place: PlaceInCatalog
    ) -> None:
        properties = {**definition.properties, **place.staged.properties}
        super().__init__(
            session_of, replace(definition, uri=place.staged.location, properties=properties)
        )
        self._place = place

    def _place_options(self) -> Mapping[str, str]:
        return self._place.options

    def answer_commit(self, session: Any) -> None:
        """Make the table, where no rows were written, and let the catalog name it."""
        spark = self._session_of(session)
        call(self._named, completed(self._definition, spark), session_commits(spark))

    async def _named(self, definition: Definition, commits: CommitOptions) -> None:
        staged, client = self._place.staged, self._place.client()
        try:
            if self._written:  # and the catalog knows no such table yet, of which it could be asked
                table = open_table(staged.location, staged.storage_options)
            else:
                table = await created(definition, staged.storage_options, commits, client)
            async with table:
                await client.register_table(staged, await table.snapshot(version=0))
        finally:
            await client.aclose()
