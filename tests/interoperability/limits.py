"""What other engines are known not to read, or to read wrong.

A limit that an engine no longer has fails the test of it: then it is to be taken out here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["LIMITS", "Misreads", "Refuses", "limit_of"]


@dataclass(frozen=True, slots=True)
class Refuses:
    """The engine raises an error with these words in it."""

    words: str


@dataclass(frozen=True, slots=True)
class Misreads:
    """The engine gives other rows than the log and the files say, without an error."""

    reason: str


_SHAPES: Final = {"shapes": Refuses("Unsupported Delta table type: 'geometry")}
_NO_NULL_LISTS: Final = Misreads("its lists, maps and structs are never null")
_DECIMALS: Final = Misreads("puts the halves of a decimal the wrong way round")
_PARTITIONS: Final = Misreads("seeks partition values by logical names")
_VECTORS: Final = Refuses("deletion vectors are not yet supported")
_ODD_PATHS: Final = Misreads("gives rows that vectors delete, where a path is percent-encoded")
_ENGINES: Final = ("ClickHouse", "DuckDB", "Sail", "daft", "deltalake", "polars")
_VERSION_2: Final = Refuses("requires reader version 2 (column mapping)")

LIMITS: Final[Mapping[str, Mapping[str, Refuses | Misreads]]] = {
    "ClickHouse": {
        **_SHAPES,
        "variants": Refuses("Unsupported Variant data type"),
        "nested types that are null": _NO_NULL_LISTS,
        "schema that grew": _NO_NULL_LISTS,
        "column mapping by name": _NO_NULL_LISTS,
        "column mapping by id": _NO_NULL_LISTS,
        "partitions of type decimal": _DECIMALS,
    },
    "DuckDB": {
        **_SHAPES,
        "variants": Refuses("Unsupported Arrow type VARIANT"),
        "column mapping by name": _PARTITIONS,
        "column mapping by id": _PARTITIONS,
        "deletion vectors with column mapping": _PARTITIONS,
        "IcebergCompatV1": _PARTITIONS,
        "IcebergCompatV2": _PARTITIONS,
        "IcebergCompatV3": _PARTITIONS,
    },
    "Sail": {"shapes": Refuses("did not match any variant of untagged enum DataType")},
    "daft": {
        **_SHAPES,
        "column mapping by name": Refuses("Failed to decode parquet column"),
        "column mapping by id": Refuses("Failed to decode parquet column"),
        "deletion vectors in the log": _VECTORS,
        "deletion vectors in a file": _VECTORS,
        "deletion vectors of files with odd paths": _VECTORS,
        "deletion vectors with column mapping": _VECTORS,
        "change data feed with deletion vectors": _VECTORS,
        "row tracking with deletion vectors": _VECTORS,
        # It has no type for the views that polars says that it wrote.
        **{f"turns with {engine} and deletion vectors": _VECTORS for engine in _ENGINES},
        "turns with polars": Refuses("Unsupported Arrow DataType: Utf8View"),
        "turns of all": Refuses("Unsupported Arrow DataType: Utf8View"),
    },
    "deltalake": {
        **_SHAPES,
        "type widening": Refuses("Unsupported table features required: [TypeWidening]"),
    },
    "polars": {
        **_SHAPES,
        "partitions of type binary": Refuses("unsupported data type when reading CSV: binary"),
        "columns with odd names, by name mapping": _VERSION_2,
        "column mapping by name": _VERSION_2,
        "column mapping by id": _VERSION_2,
        "deletion vectors with column mapping": Refuses("['columnMapping']"),
        "IcebergCompatV1": _VERSION_2,
        "IcebergCompatV2": _VERSION_2,
        "IcebergCompatV3": _VERSION_2,
        "checkpoint: V2 in JSON": Refuses("['v2Checkpoint']"),
        "checkpoint: V2 in Parquet": Refuses("['v2Checkpoint']"),
        "checkpoint: V2 with statistics as struct": Refuses("['v2Checkpoint']"),
        "type widening": Refuses("['typeWidening']"),
        # It finds a file's vector by a path as the log has it, and the file by one that is decoded.
        "deletion vectors of files with odd paths": _ODD_PATHS,
        **{f"turns with {engine} and deletion vectors": _ODD_PATHS for engine in _ENGINES},
        # It takes partition values from paths; daft's have a slash of a value as it is.
        "turns with daft": Misreads("takes partition values from paths"),
        "turns of all": Misreads("takes partition values from paths"),
    },
}
"""Limits by engine and by kind of table."""


def limit_of(engine: str, kind: str) -> Refuses | Misreads | None:
    """What is known of an engine and a kind of table."""
    return LIMITS.get(engine, {}).get(kind)
