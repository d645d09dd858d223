"""What a clone's first commit says: the source's definition and files, as another table's.

Row ids are not the source's, nor are application transactions: a clone is a table of its own.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from adelta.errors import InvalidTableError
from adelta.kernel.actions.file_actions import decode_path, encode_path
from adelta.kernel.deletion_vector.descriptor import encode_relative, vector_path
from adelta.kernel.file_id import canonical_path
from adelta.kernel.table_features import (
    CATALOG_MANAGED,
    IN_COMMIT_TIMESTAMP_ENABLEMENT_TIMESTAMP,
    IN_COMMIT_TIMESTAMP_ENABLEMENT_VERSION,
    ROW_TRACKING,
    check_change,
    completed_metadata,
    outlasting_properties,
    protocol_without,
    stored_properties,
    upgraded_protocol,
    validate_properties,
)
from adelta.kernel.transaction.creation import NewTable
from adelta.kernel.transaction.restoring import joined_protocol, merged_marks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from adelta.kernel.actions.domain_metadata import DomainMetadata
    from adelta.kernel.actions.file_actions import AddFile, DeletionVectorDescriptor
    from adelta.kernel.table_configuration import TableConfiguration

__all__ = ["Copy", "cloned_definition", "copied_file", "copies_of", "shallow_file"]

_NOT_COPIED = (
    IN_COMMIT_TIMESTAMP_ENABLEMENT_VERSION.key,
    IN_COMMIT_TIMESTAMP_ENABLEMENT_TIMESTAMP.key,
    *ROW_TRACKING.outlasting,
    *CATALOG_MANAGED.outlasting,
)
_SPACE = uuid.UUID("5a0a7b4e-9f0c-5d0e-8c3b-6f1f3a6a1c57")


@dataclass(frozen=True, slots=True)
class Copy:
    """An object to copy: its path as the source's log has it, where to, and its size if known."""

    source: str
    target: str
    size: int | None


def cloned_definition(
    source: TableConfiguration,
    target: TableConfiguration | None,
    properties: Mapping[str, str],
    *,
    now_ms: int,
    domains: tuple[DomainMetadata, ...] = (),
) -> NewTable:
    """The source's definition with other `properties`, as a new table's or in place of `target`.

    Raises:
        InvalidPropertyError: a property is unknown, has a value that is not allowed, or cannot be
            another one than the source's.
        UnsupportedFeatureError: a property asks for a feature that adelta does not have.
        SchemaMismatchError: a property asks for what the source's schema does not allow.
    """
    asked = validate_properties(properties)
    stored = {
        key: value for key, value in source.metadata.configuration.items() if key not in _NOT_COPIED
    }
    protocol = source.protocol
    if source.supports(CATALOG_MANAGED):
        protocol = protocol_without(protocol, CATALOG_MANAGED)
    before = source.metadata.with_configuration(stored)
    after = before.with_configuration({**stored, **stored_properties(asked)})
    protocol = upgraded_protocol(protocol, before, after, asked) or protocol
    after = replace(after, id=str(uuid.uuid4()), name=None, description=None, created_time=now_ms)
    if target is not None:
        protocol = joined_protocol(target.protocol, protocol)
        kept = {**after.configuration, **outlasting_properties(target, after)}
        after = replace(
            after.with_configuration(kept),
            id=target.metadata.id,
            name=target.metadata.name,
            description=target.metadata.description,
            created_time=target.metadata.created_time,
        )
        after = merged_marks(target, after)
    after = completed_metadata(before, after, protocol, lambda: str(uuid.uuid4()))
    made = NewTable(protocol, after, domains)
    check_change(replace(source, protocol=protocol, metadata=before), made.configuration)
    return made


def shallow_file(file: AddFile, root: str) -> AddFile:
    """A file of the table at `root`, as another table's log names it where it is."""
    vector = file.deletion_vector
    if vector is not None and vector.storage_type == "u":
        path = _absolute(vector_path(vector), root)
        vector = replace(vector, storage_type="p", path_or_inline_dv=path)
    return _own(file, _absolute(file.path, root), vector)


def _absolute(path: str, root: str) -> str:
    """The URI of what a log at `root` names, percent-encoded as in a log."""
    relative = canonical_path(path, root)
    if relative.startswith("/") or _has_scheme(relative):
        return path if _has_scheme(path) else f"{_top(root)}{encode_path(relative)}"
    if root.startswith("file:"):
        return f"{root}/{encode_path(relative)}"  # which is encoded
    scheme, _, place = root.partition("://")
    return f"{scheme}://{encode_path(place)}/{encode_path(relative)}"


def _has_scheme(path: str) -> bool:
    head = path.partition(":")[0]
    return head != path and head.isascii() and head.replace("+", "").replace("-", "").isalnum()


def _top(root: str) -> str:
    """What comes before an absolute path of the store that `root` is in."""
    scheme, _, place = root.partition("://")
    return "file://" if scheme == "file" else f"{scheme}://{place.partition('/')[0]}"


def copied_file(file: AddFile, root: str) -> AddFile:
    """A file of the table at `root`, as the log of a table that has a copy of it names it.

    The copy's name follows from the file, so that a second clone knows what the first has copied.
    """
    origin = f"{_absolute(file.path, root)}|{file.size}|{file.modification_time}"
    folders = [part for part in decode_path(file.path).split("/")[:-1] if "=" in part]
    name = f"part-00000-{uuid.uuid5(_SPACE, origin)}.c000.parquet"
    vector = file.deletion_vector
    if vector is not None and vector.storage_type != "i":
        unique = uuid.uuid5(_SPACE, _absolute(vector_path(vector), root))
        vector = replace(vector, storage_type="u", path_or_inline_dv=encode_relative(unique))
    return _own(file, encode_path("/".join((*folders, name))), vector)


def copies_of(files: Iterable[tuple[AddFile, AddFile]]) -> Iterator[Copy]:
    """What has to be copied for each file, and what stands for it; several may share a vector."""
    for file, copy in files:
        yield Copy(file.path, decode_path(copy.path), file.size)
        if file.deletion_vector is not None and file.deletion_vector.storage_type != "i":
            assert copy.deletion_vector is not None
            yield Copy(
                vector_path(file.deletion_vector),
                decode_path(vector_path(copy.deletion_vector)),
                None,
            )


def _own(file: AddFile, path: str, vector: DeletionVectorDescriptor | None) -> AddFile:
    if not path:
        raise InvalidTableError(f"the log names a file {file.path[:100]!r}, which is no path")
    return replace(
        file,
        path=path,
        deletion_vector=vector,
        data_change=True,
        base_row_id=None,
        default_row_commit_version=None,
    )
