"""The clones that delta-spark's users make of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adelta.spark.delta.argument_types import check_clone, check_type
from adelta.spark.delta.cloning import CloneWish, clone_to
from adelta.spark.exceptions import raises_as_spark
from adelta.spark.options.session_settings import session_zone
from adelta.spark.translate.not_of_java import NotOfJava
from adelta.spark.translate.zones import moment_in

if TYPE_CHECKING:
    from datetime import datetime

    from adelta.spark.delta.table import DeltaTable
    from adelta.spark.tables.access import TableAccess

__all__ = ["Cloned"]


class Cloned(NotOfJava):
    """A table that is cloned: what `DeltaTable` has for it."""

    _access: TableAccess

    @property
    def _zone(self) -> str:
        return session_zone(self._access.spark)

    @raises_as_spark
    def clone(
        self,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: dict[str, str] | None = None,
    ) -> DeltaTable:
        """Make another table with the rows of the latest version; `target` is its path or name.

        Raises: as `adelta.clone` does.
        """
        return self._clone(target, isShallow, replace, properties)

    @raises_as_spark
    def cloneAtVersion(
        self,
        version: int,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: dict[str, str] | None = None,
    ) -> DeltaTable:
        """Make another table with the rows of a version.

        Raises: as `adelta.clone` does.
        """
        check_type("version", version, int, "an int")
        return self._clone(target, isShallow, replace, properties, version=version)

    @raises_as_spark
    def cloneAtTimestamp(
        self,
        timestamp: str,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: dict[str, str] | None = None,
    ) -> DeltaTable:
        """Make another table with the rows that there were at a time.

        Raises: as `adelta.clone` does.
        """
        check_type("timestamp", timestamp, str, "a string")
        moment = moment_in(timestamp, self._zone)
        return self._clone(target, isShallow, replace, properties, timestamp=moment)

    def _clone(
        self,
        target: str,
        shallow: bool,
        replace: bool,
        properties: dict[str, str] | None,
        *,
        version: int | None = None,
        timestamp: datetime | None = None,
    ) -> DeltaTable:
        check_clone(target, shallow, replace, properties)
        wish = CloneWish(shallow, replace, properties, version, timestamp)
        path, name, options = clone_to(self._access, target, wish)
        made: Any = type(self)
        found: DeltaTable = made(self._access.spark, path, options, name=name)
        return found
