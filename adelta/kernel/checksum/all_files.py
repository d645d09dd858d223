"""The live files that a version checksum lists (`allFiles`), by the identity of each.

Readers never take a table's files from this list: it is only compared with the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from adelta.errors import InvalidPropertyError
from adelta.kernel.actions.json import ADD_JSON_NAMES
from adelta.kernel.table_properties import TableProperties

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import pyarrow as pa

    from adelta.kernel.actions.metadata import Metadata

__all__ = [
    "MOST_FILES",
    "AllFiles",
    "bodies_of_rows",
    "decode_all_files",
    "identity",
    "listed",
    "lists_files",
]

AllFiles: TypeAlias = "Mapping[tuple[str, str | None], Mapping[str, Any]]"
"""Bodies of live `add` actions by path, spelled as in the log, and unique id of the vector."""

MOST_FILES = 50
"""A checksum that is written does not list more files."""
_MOST_INDEXED_COLUMNS = 32
_NAMES = tuple(ADD_JSON_NAMES.values())


def lists_files(metadata: Metadata) -> bool:
    """Whether the properties of a table let its checksums list its files.

    They do not where checkpoints drop all statistics, because the list would keep them, nor where
    more columns than usual have statistics, because the list would be long.
    """
    properties = TableProperties.parse(metadata.configuration)
    try:
        few_columns = properties.data_skipping_num_indexed_cols <= _MOST_INDEXED_COLUMNS
        return few_columns and any(properties.checkpoint_statistics)
    except InvalidPropertyError:
        return False


def identity(body: Mapping[str, Any]) -> tuple[str, str | None]:
    """The file that the decoded body of an `add` or `remove` action is about.

    The path is spelled as in the body, so two spellings of one path are two identities.
    """
    vector = body.get("deletionVector")
    if vector is None:
        return body["path"], None
    unique, offset = vector["storageType"] + vector["pathOrInlineDv"], vector.get("offset")
    return body["path"], unique if offset is None else f"{unique}@{offset}"


def listed(body: Mapping[str, Any]) -> dict[str, Any]:
    """The body of an `add` action as a checksum lists it: without nulls, `dataChange` is false."""
    found = {name: value for name in _NAMES if (value := body.get(name)) is not None}
    found["dataChange"] = False
    return found


def bodies_of_rows(files: pa.Table) -> list[dict[str, Any]]:
    """The bodies of file actions that are rows of a table with columns of `ADD_SCHEMA`."""
    bodies: list[dict[str, Any]] = [{} for _ in range(files.num_rows)]
    for column, name in ADD_JSON_NAMES.items():
        if column not in files.column_names:
            continue
        values: Any = files.column(column)
        if values.null_count == len(values):
            continue
        decode = _DECODE.get(column)
        for body, value in zip(bodies, values.to_pylist(), strict=True):
            if value is not None:
                body[name] = value if decode is None else decode(value)
    return bodies


def _without_nulls(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


_DECODE: Mapping[str, Callable[[Any], Any]] = {
    "partition_values": dict,
    "tags": dict,
    "deletion_vector": _without_nulls,
}
"""What makes a value of the log of a row's value, by the column of `ADD_SCHEMA`."""


def decode_all_files(
    raw: Iterable[Mapping[str, Any]] | None, num_files: int, table_size_bytes: int
) -> AllFiles | None:
    """The list of files of a checksum that counts so many files and bytes; None if it has none.

    Raises:
        TypeError: the list is malformed, or contradicts the counts.
        KeyError: a file has no path or no size.
    """
    if raw is None:
        return None
    bodies = list(raw)
    found = {identity(body): body for body in bodies}
    if not all(isinstance(path, str) for path, _ in found):
        raise TypeError("a path in allFiles is not a string")
    if not len(bodies) == len(found) == num_files:
        raise TypeError(f"its allFiles are {len(found)} different files, not {num_files}")
    if sum(body["size"] for body in bodies) != table_size_bytes:
        raise TypeError("the sizes of its allFiles do not add up to tableSizeBytes")
    return found
