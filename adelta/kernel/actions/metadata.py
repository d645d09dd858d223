"""The `metaData` action: a table's identity, schema and configuration.

PROTOCOL.md, "Change Metadata".
"""

from __future__ import annotations

from dataclasses import field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from adelta._dataclasses import dataclass
from adelta.errors import InvalidTableError
from adelta.kernel.actions.commit_info import is_time
from adelta.kernel.schema.json import schema_from_string

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.kernel.schema.types import StructType

__all__ = ["Metadata", "parsed_schema"]

_NO_COLUMNS = '{"type":"struct","fields":[]}'

parsed_schema = lru_cache(maxsize=64)(schema_from_string)
"""The schema that a schema string describes; the same ones are asked for again and again."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a table is called, which columns it has, and its `delta.*` and other properties."""

    id: str
    schema_string: str
    partition_columns: tuple[str, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict, hash=False)
    name: str | None = None
    description: str | None = None
    format_provider: str = "parquet"
    format_options: Mapping[str, str] = field(default_factory=dict, hash=False)
    created_time: int | None = None

    @property
    def schema(self) -> StructType:
        """The table's logical columns.

        Raises:
            InvalidTableError: the schema string is not a schema.
        """
        return parsed_schema(self.schema_string)

    def with_configuration(self, configuration: Mapping[str, str]) -> Metadata:
        """The same metadata under other properties."""
        return replace(self, configuration=dict(configuration))

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Metadata:
        """The value of a decoded `metaData` action.

        Raises:
            InvalidTableError: a required field is missing or of the wrong kind.
        """
        schema_string = raw.get("schemaString")
        if schema_string is None:
            schema_string = _NO_COLUMNS  # as Spark reads it
        if not isinstance(schema_string, str):
            raise InvalidTableError(
                f"the metaData action has the schemaString {str(schema_string)[:100]!r}; it is "
                "damaged"
            )
        columns = raw.get("partitionColumns") or ()
        if not isinstance(columns, (list, tuple)) or not all(isinstance(c, str) for c in columns):
            raise InvalidTableError(
                f"the metaData action lists its partition columns as {str(columns)[:100]!r}; it is "
                "damaged"
            )
        storage_format = _mapping(raw.get("format"), "format")
        created = raw.get("createdTime")
        configuration = _mapping(raw.get("configuration"), "configuration")
        options = _mapping(storage_format.get("options"), "format.options")
        return cls(
            id=str(raw.get("id") or ""),
            schema_string=schema_string,
            partition_columns=tuple(columns),
            configuration={str(k): "" if v is None else str(v) for k, v in configuration.items()},
            name=_text(raw.get("name")),
            description=_text(raw.get("description")),
            format_provider=str(storage_format.get("provider") or "parquet"),
            format_options={str(k): "" if v is None else str(v) for k, v in options.items()},
            created_time=created if is_time(created) else None,
        )

    def to_json(self) -> dict[str, Any]:
        """The action's body as the log writes it."""
        body: dict[str, Any] = {"id": self.id}
        if self.name is not None:
            body["name"] = self.name
        if self.description is not None:
            body["description"] = self.description
        body["format"] = {"provider": self.format_provider, "options": dict(self.format_options)}
        body["schemaString"] = self.schema_string
        body["partitionColumns"] = list(self.partition_columns)
        if self.created_time is not None:
            body["createdTime"] = self.created_time
        body["configuration"] = dict(self.configuration)
        return body


def _mapping(value: object, name: str) -> Mapping[str, Any]:
    """A decoded object; a Parquet map arrives as key-value pairs."""
    if isinstance(value, (list, tuple)) and all(isinstance(pair, tuple) for pair in value):
        return dict(value)
    if value is not None and not isinstance(value, dict):
        raise InvalidTableError(
            f"the metaData action has the {name} {str(value)[:100]!r}; it is damaged"
        )
    return value or {}


def _text(value: object) -> str | None:
    return None if value is None else str(value)
