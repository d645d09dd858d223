"""Columns of a table's definition, as Spark's catalogs have them ⇄ as tables have them.

What a table says in its fields' metadata of generated columns, Spark says under a key of its own.
Defaults of columns have the same key in both.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as s

from adelta.errors import SchemaMismatchError
from adelta.kernel.schema.char_types import with_plain_texts
from adelta.kernel.schema.json import data_type_from_json
from adelta.kernel.schema.types import LONG, StructType
from adelta.spark.translate.types import check_columns, to_spark_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.kernel.schema.types import DataType, StructField

__all__ = ["COMPUTED", "defined_schema", "defined_type", "described_schema"]

_GENERATION, _SPARK_GENERATION = "delta.generationExpression", "GENERATION_EXPRESSION"
_COMPUTING = (_GENERATION, "delta.identity.start", "delta.identity.step")

COMPUTED = "adelta.computed"
"""Marks columns for `NamedTables.java` that the table computes where rows do not bring them."""

_EXISTING_ROWS = "EXISTS_DEFAULT"
"""Spark's value of a default for rows from before it; in a Delta table these have nulls."""


def described_schema(schema: StructType) -> dict[str, Any]:
    """A table's schema as the JSON of Spark's, with marks at columns that the table computes.

    Spark is not told how: it would compute generated columns itself, and check them.
    """
    found: dict[str, Any] = to_spark_schema(schema).jsonValue()
    for field, described in zip(schema, found["fields"], strict=True):
        if any(key in field.metadata for key in _COMPUTING):
            described["metadata"] = {**described["metadata"], COMPUTED: True}
    return found


def defined_schema(
    described: Mapping[str, Any], identities: Mapping[str, Mapping[str, Any]]
) -> StructType:
    """The schema of a table that CREATE TABLE defines, which Spark describes as JSON.

    Raises:
        SchemaMismatchError: an identity column does not hold long integers, or a column has a type
            that Delta does not have.
    """
    found = _checked(described)
    return StructType(
        tuple(with_plain_texts(_of_table(field, identities.get(field.name))) for field in found)
    )


def defined_type(described: str) -> DataType:
    """The type of a column that Spark describes, as JSON, as the only one of a schema.

    Raises:
        SchemaMismatchError: it is none that Delta has.
    """
    [found] = _checked(json.loads(described))
    return found.type


def _checked(described: Mapping[str, Any]) -> StructType:
    check_columns(s.StructType.fromJson(dict(described)))  # the kernel knows no collations
    found = data_type_from_json(described)
    assert isinstance(found, StructType)
    return found


def _of_table(field: StructField, identity: Mapping[str, Any] | None) -> StructField:
    kept = {
        _GENERATION if key == _SPARK_GENERATION else key: value
        for key, value in field.metadata.items()
        if key != _EXISTING_ROWS
    }
    if identity is not None:
        if field.type != LONG:
            raise SchemaMismatchError(
                f"the identity column {field.name!r} is of type {field.type}; make it BIGINT",
                reason="identity_column_type",
            )
        kept["delta.identity.start"] = identity["start"]
        kept["delta.identity.step"] = identity["step"]
        kept["delta.identity.allowExplicitInsert"] = identity["explicit"]
    return replace(field, metadata=kept)
