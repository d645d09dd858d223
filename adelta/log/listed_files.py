"""Compares the files that a version checksum lists with the live files of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from adelta._arrow_values import array_of
from adelta.errors import InvalidTableError
from adelta.kernel.actions.body_tables import table_of_bodies
from adelta.kernel.actions.file_schemas import ADD_SCHEMA
from adelta.kernel.actions.json import ADD_JSON_NAMES
from adelta.kernel.checksum.all_files import bodies_of_rows, identity, listed
from adelta.kernel.file_id import FileId, canonical_path
from adelta.log.checkpoint_columns import ParsedColumns

if TYPE_CHECKING:
    from collections.abc import Set

    from adelta.kernel.checksum.all_files import AllFiles
    from adelta.kernel.table_configuration import TableConfiguration

__all__ = ["listed_files_difference"]

_Files: TypeAlias = "dict[FileId, dict[str, Any]]"


def listed_files_difference(
    stated: AllFiles, live: pa.Table, root: str, configuration: TableConfiguration
) -> str | None:
    """The first difference between the files that a checksum lists and the live files, in words.

    `live` has the columns of `ADD_SCHEMA`. None if there is no difference. Statistics may be
    written differently as long as they are the same values for the columns of the table.
    """
    bodies = [dict(body) for body in stated.values()]
    try:
        listed_rows = table_of_bodies(bodies, [0] * len(bodies), ADD_SCHEMA, ADD_JSON_NAMES)
    except InvalidTableError:
        return "the list of files, of which some are malformed"
    listed_files, live_files = _by_id(listed_rows, root), _by_id(live, root)
    missing, extra = (
        live_files.keys() - listed_files.keys(),
        listed_files.keys() - live_files.keys(),
    )
    if missing:
        return f"the list of files, which does not have {_first(missing)}"
    if extra:
        return f"the list of files, which has {_first(extra)}"
    for file, live_file in live_files.items():
        listed_file = listed_files[file]
        for name in sorted(live_file.keys() | listed_file.keys()):
            one, other = listed_file.get(name), live_file.get(name)
            if one == other or (name == "stats" and _are_same_stats(one, other, configuration)):
                continue
            return f"the list of files, for which {name} of {file.path!r} is different"
    return None


def _by_id(files: pa.Table, root: str) -> _Files:
    """The bodies of the files, without what every `add` action of a checksum has in common."""
    found: _Files = {}
    for body in map(listed, bodies_of_rows(files)):
        path, vector = identity(body)
        compared = {k: v for k, v in body.items() if k not in ("path", "dataChange") and v != {}}
        found[FileId(canonical_path(path, root), vector)] = compared
    return found


def _first(files: Set[FileId]) -> str:
    file = min(files, key=str)
    vector = "" if file.deletion_vector is None else " with a deletion vector"
    return f"{file.path!r}{vector}"


def _are_same_stats(one: str | None, other: str | None, configuration: TableConfiguration) -> bool:
    texts = array_of([one, other], pa.string())
    values = ParsedColumns(configuration).stats(texts).to_pylist()
    return bool(values[0] == values[1])
