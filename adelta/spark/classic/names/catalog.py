"""What catalogs in the JVM ask: tables by where they are, whatever name led there."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from adelta.errors import InvalidUseError
from adelta.operations.create import exists
from adelta.spark.classic.names.alterations import alter
from adelta.spark.classic.names.answers import Answers
from adelta.spark.classic.names.definitions import Definition, StagedTable, create
from adelta.spark.classic.names.opened import OpenedTable
from adelta.spark.classic.names.places import uri_of
from adelta.spark.classic.names.tables_in_catalogs import stage_in_catalog
from adelta.spark.exceptions import known_as_of
from adelta.spark.options.commits import session_commits
from adelta.spark.options.hadoop_conf import storage_of_session
from adelta.spark.options.session_settings import session_zone
from adelta.spark.options.unity import options_in_catalog
from adelta.spark.tables.likeness import check_alike
from adelta.sync._portal import call
from adelta.table import open_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.spark.classic.names.answers import SessionOf

__all__ = ["CatalogAnswers"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def _exists(uri: str, storage_options: Mapping[str, str]) -> bool:
    async with open_table(uri, storage_options) as table:
        return await exists(table)


def _time_travel(version: str | None, microseconds: int | None) -> dict[str, str]:
    """What the options of a read say of it."""
    found = {} if version is None else {"versionAsOf": version}
    if microseconds is not None:
        moment = _EPOCH + timedelta(microseconds=microseconds)
        found["timestampAsOf"] = moment.isoformat()
    return found


class CatalogAnswers(Answers):
    """Answers to `PathCatalog.java` and `SessionTables.java`."""

    def __init__(self, session_of: SessionOf) -> None:
        self._session_of = session_of

    def answer_open(
        self, session: Any, path: str, version: str | None, microseconds: int | None
    ) -> OpenedTable:
        """A version of the table at a path."""
        options = {"path": uri_of(path), **_time_travel(version, microseconds)}
        return OpenedTable(self._session_of, self._session_of(session), options)

    def answer_open_in_catalog(
        self,
        session: Any,
        catalog: str,
        schema: str,
        table: str,
        version: str | None,
        microseconds: int | None,
    ) -> OpenedTable:
        """A version of a table of a Unity Catalog."""
        spark = self._session_of(session)
        options = options_in_catalog(spark, catalog, schema, table)
        options |= _time_travel(version, microseconds)

        def for_changes() -> dict[str, str]:
            return options_in_catalog(spark, catalog, schema, table, write=True)

        return OpenedTable(self._session_of, spark, options, for_changes)

    def answer_stage_in_catalog(
        self, session: Any, catalog: str, schema: str, table: str, definition: str
    ) -> StagedTable:
        """A table of a Unity Catalog that comes to be when Spark says so."""
        name, spark = (catalog, schema, table), self._session_of(session)
        return stage_in_catalog(self._session_of, spark, name, json.loads(definition))

    def answer_exists(self, session: Any, path: str) -> bool:
        """Whether there is a table at a path."""
        return call(_exists, *self._place(session, path))

    def answer_create(self, session: Any, definition: str) -> None:
        """Create an empty table."""
        create(Definition.parse(json.loads(definition)), self._session_of(session))

    def answer_stage(self, _session: Any, definition: str) -> StagedTable:
        """A table that comes to be when Spark says so."""
        return StagedTable(self._session_of, Definition.parse(json.loads(definition)))

    def answer_alter(self, session: Any, path: str, changes: str) -> None:
        """Change the table at a path."""
        spark, (uri, storage) = self._session_of(session), self._place(session, path)
        zone, commits = session_zone(spark), session_commits(spark)
        call(alter, uri, json.loads(changes), zone, storage, commits=commits)

    def answer_move(self, session: Any, path: str, other: str) -> None:
        """Look whether an entry for the table at a path can be one for that at another."""
        with known_as_of("set location"):
            call(check_alike, self._place(session, path), self._place(session, other))

    def _place(self, session: Any, path: str) -> tuple[str, dict[str, str]]:
        """Where a table is, and how the session opens its store."""
        uri = uri_of(path)
        return uri, storage_of_session(self._session_of(session), uri)

    def answer_drop(self, _session: Any, path: str) -> None:
        """Refuse: a path is no entry of a catalog."""
        raise InvalidUseError(
            f"{path} is a path, not an entry of a catalog that could be dropped: delete the folder "
            "where the table is to go"
        )

    def answer_rename(self, _session: Any, path: str) -> None:
        """Refuse: a path is no entry of a catalog."""
        raise InvalidUseError(f"{path} is a path, not an entry of a catalog that could be renamed")
