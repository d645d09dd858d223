"""Which objects of a table VACUUM may delete: those that nothing within the retention needs.

Kept are the files of `KeptFiles`, whatever their age: live data files, those that left the table
within the retention, and the files of both kinds' deletion vectors. Kept is what is younger than
the cutoff, and what `VacuumRules` call hidden.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import array_of
from adelta._dataclasses import dataclass
from adelta.kernel.actions.file_actions import DeletionVectorDescriptor, decode_path
from adelta.kernel.deletion_vector.descriptor import vector_path
from adelta.kernel.file_id import canonical_paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from adelta.kernel.table_configuration import TableConfiguration

__all__ = [
    "FOUND",
    "KeptFiles",
    "VacuumRules",
    "in_retention",
    "referenced_paths",
    "removed_objects",
]

arrow: Any = pa

FOUND: pa.Schema = arrow.schema(
    [("path", pa.large_string()), ("size", pa.int64()), ("modification_time", pa.int64())]
)
"""What is known of objects that were found: path in the store, bytes, milliseconds."""

_NEVER_HIDDEN = ("_delta_index", "_change_data")
_ODD = r"%|^/|^[A-Za-z][A-Za-z0-9+.-]*:|(?:^|/)\.{0,2}(?:/|$)"
_ELSEWHERE = r"^/|^[A-Za-z][A-Za-z0-9+.-]*:|(?:^|/)\.{0,2}(?:/|$)"
_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:")
_SLICE = 16_384  # paths of a page that are looked for at once


@dataclass(frozen=True)
class VacuumRules:
    """What VACUUM does not see: names that begin with ``_`` or ``.``, and what is below them.

    Folders of partitions are seen, by the names of `partition_columns`, and indexes and change
    data. With `iceberg` the folder ``metadata`` is another format's.
    """

    partition_columns: tuple[str, ...] = ()
    iceberg: bool = False

    @classmethod
    def of(cls, configuration: TableConfiguration) -> VacuumRules:
        """The rules of a table: its partition columns by either name."""
        names = (*configuration.partition_columns, *configuration.physical_partition_columns)
        formats = configuration.properties.universal_formats
        return cls(tuple(dict.fromkeys(names)), any(name.lower() == "iceberg" for name in formats))

    def hides(self, name: str) -> bool:
        """Whether a file or a folder of that name is not seen."""
        if name[:1] in ("_", "."):
            return not name.startswith(self._seen)
        return self.iceberg and name == "metadata"

    def visible(self, paths: pa.Array[Any]) -> pa.Array[Any]:
        """Which paths have no component that is hidden.

        Example: of ``a``, ``_change_data/b`` and ``x/.c`` the first two.
        """
        hidden = pc.match_substring_regex(paths, self._suspect)
        if not pc.any(hidden).as_py():
            return _negated(hidden)
        found = [
            any(map(self.hides, str(path).split("/"))) for path in paths.filter(hidden).to_pylist()
        ]
        return _negated(pc.replace_with_mask(hidden, hidden, array_of(found, pa.bool_())))

    @cached_property
    def _seen(self) -> tuple[str, ...]:
        return (*_NEVER_HIDDEN, *(f"{name}=" for name in self.partition_columns))

    @cached_property
    def _suspect(self) -> str:
        return r"(?:^|/)(?:[_.]|metadata(?:/|$))" if self.iceberg else r"(?:^|/)[_.]"


@dataclass(frozen=True, slots=True)
class KeptFiles:
    """The paths in the store, each once and in the order of their bytes, that are not deleted."""

    paths: pa.Array[Any] = field(default_factory=lambda: _texts(()))

    @classmethod
    def of(cls, paths: Iterable[pa.Array[Any]]) -> KeptFiles:
        """Those of several arrays."""
        arrays = list(paths)
        if not arrays:
            return cls()
        whole = pc.unique(arrow.concat_arrays(arrays))
        del arrays
        return cls(whole.take(pc.array_sort_indices(whole)))

    def lacks(self, paths: pa.Array[Any]) -> pa.Array[Any]:
        """Which of `paths`, in the order of their bytes, are not kept.

        Only the part of the kept paths between the first and the last is looked through.

        Example: with ``a`` and ``c`` kept it is, of ``a``, ``b`` and ``c``, the second.
        """
        masks: list[pa.Array[Any]] = [array_of([], pa.bool_())]
        for start in range(0, len(paths), _SLICE):
            part = paths.slice(start, _SLICE)
            first, last = self._place(part[0].as_py()), self._place(part[-1].as_py(), after=True)
            between = self.paths.slice(first, last - first)
            masks.append(pc.invert(pc.is_in(part, value_set=between)))
        return _joined(masks)

    def _place(self, path: str, *, after: bool = False) -> int:
        wanted = path.encode()
        low, high = 0, len(self.paths)
        while low < high:
            middle = (low + high) // 2
            found = self.paths[middle].as_py().encode()
            if found < wanted or (after and found == wanted):
                low = middle + 1
            else:
                high = middle
        return low


def in_retention(removes: pa.Table, cutoff_ms: int) -> pa.Table:
    """The removed files that left the table at `cutoff_ms` or later; without a time, long before.

    Example: at 5 those that were removed at 5 and 6, and none that was removed at 4.
    """
    times = pc.fill_null(removes.column("deletion_timestamp"), 0)
    return removes.filter(pc.greater_equal(times, cutoff_ms))


def referenced_paths(files: pa.Table, own_path: Callable[[str], str | None]) -> pa.Array[Any]:
    """Where the data files and deletion vectors of `files` are in the table's store.

    `files` has the columns `path` and `deletion_vector`. `own_path` says where in the store a URI
    or an absolute path of a log leads, None where that is elsewhere. Of a path that may have been
    meant in several ways there are all of them.

    Raises:
        InvalidTableError: nobody can say which file a deletion vector is in.
    """
    found = [_located(chunk, own_path) for chunk in files.column("path").chunks]
    vectors = _vectors(files)
    if len(vectors):
        found.append(_located(vectors, own_path))
    return _joined(found or [_texts(())])


def removed_objects(files: pa.Table, root: str) -> pa.RecordBatch:
    """The objects of the table at `root` that removed files, or change files, are: a `FOUND`.

    A change file bears no time, nor does a deletion vector a size. What lies elsewhere is left out.
    """
    paths = canonical_paths(files.column("path"), root).cast(pa.large_string()).combine_chunks()
    sizes = pc.fill_null(files.column("size"), 0).combine_chunks()
    times = array_of([0] * files.num_rows, pa.int64())
    if "deletion_timestamp" in files.column_names:
        times = pc.fill_null(files.column("deletion_timestamp"), 0).combine_chunks()
    columns = [[paths], [sizes], [times]]
    if "deletion_timestamp" in files.column_names and (vectors := _vectors(files)):
        named = arrow.chunked_array([vectors.cast(pa.string())])
        of_vectors = canonical_paths(named, root).cast(pa.large_string()).combine_chunks()
        none = array_of([0] * len(vectors), pa.int64())
        for column, more in zip(columns, (of_vectors, none, none), strict=True):
            column.append(more)
    found: pa.RecordBatch = arrow.record_batch([_joined(c) for c in columns], schema=FOUND)
    own = pc.invert(pc.match_substring_regex(found.column(0), _ELSEWHERE))
    return found.filter(own)


def _vectors(files: pa.Table) -> pa.Array[Any]:
    """The paths of the files that hold deletion vectors, as a log would have them."""
    vectors = files.column("deletion_vector")
    if vectors.null_count == len(vectors):
        return _texts(())
    kinds, texts = (pc.struct_field(vectors, name) for name in ("storageType", "pathOrInlineDv"))
    in_files = pc.fill_null(pc.not_equal(kinds, "i"), False)
    joined = pc.binary_join_element_wise(kinds, texts, "").filter(in_files)  # a kind is one letter
    named = (
        DeletionVectorDescriptor(text[:1], text[1:], 0, 0) for text in pc.unique(joined).to_pylist()
    )
    return _texts(vector_path(vector) for vector in named)


def _located(paths: pa.Array[Any], own_path: Callable[[str], str | None]) -> pa.Array[Any]:
    """Where `paths` of a log are in the store; those that are elsewhere are left out or useless."""
    odd = pc.match_substring_regex(paths, _ODD)
    if not pc.any(odd).as_py():
        return paths.cast(pa.large_string())
    folders: dict[str, str | None] = {}
    several = [
        spelling
        for path in paths.filter(odd).to_pylist()
        for spelling in _spellings(str(path), own_path, folders)
    ]
    plain = paths.filter(pc.invert(odd)).cast(pa.large_string())
    return _joined([plain, _texts(several)])


def _spellings(
    path: str, own_path: Callable[[str], str | None], folders: dict[str, str | None]
) -> Iterator[str]:
    """The paths in the store that one of a log may mean.

    It means what it says percent-decoded. Writers that did not encode it meant it as it stands,
    and `Path` of Hadoop takes out what leads up and down again.
    """
    decoded = decode_path(path)
    absolute = _ABSOLUTE.match(path) is not None or decoded.startswith("/")
    if absolute:
        folder, _, name = path.rpartition("/")
        if folder not in folders:
            inside = own_path(f"{_straight(folder)}/x")
            folders[folder] = None if inside is None else inside[:-1]
        own = folders[folder]
        if own is not None:
            yield from (own + decode_path(name), own + name)
        if decoded.startswith("/"):
            return
    yield from dict.fromkeys((decoded, path, posixpath.normpath(decoded)))


def _straight(folder: str) -> str:
    """An absolute folder without what leads up and down again, or nowhere."""
    start, there, rest = folder.partition("://")
    return f"{start}://{posixpath.normpath(rest)}" if there else posixpath.normpath(folder)


def _texts(values: Iterable[str]) -> pa.Array[Any]:
    found: pa.Array[Any] = array_of(list(values), pa.large_string())
    return found


def _joined(arrays: list[pa.Array[Any]]) -> pa.Array[Any]:
    found: pa.Array[Any] = arrow.concat_arrays(arrays)
    return found


def _negated(mask: pa.Array[Any]) -> pa.Array[Any]:
    found: pa.Array[Any] = pc.invert(mask)
    return found
