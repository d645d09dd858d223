"""What a clone's first commit says: the source's definition and files, as another table's.

Row ids are not the source's, nor are application transactions: a clone is a table of its own.

The name of a copied object has a mark, which follows from what was copied, so that a later clone
knows what is there; and a lot, which each who copies it draws anew.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass
from adelta.errors import InvalidPropertyError, InvalidTableError
from adelta.kernel.actions.file_actions import decode_path, encode_path
from adelta.kernel.deletion_vector.descriptor import encode_relative, vector_path
from adelta.kernel.file_id import canonical_path
from adelta.kernel.table_features import (
    CATALOG_MANAGED,
    CHECKPOINT_PROTECTION_BEFORE,
    IN_COMMIT_TIMESTAMP_ENABLEMENT_TIMESTAMP,
    IN_COMMIT_TIMESTAMP_ENABLEMENT_VERSION,
    KINDS,
    ROW_TRACKING,
    check_change,
    completed_metadata,
    outlasting_properties,
    outlasting_protocol,
    protocol_without,
    stored_properties,
    upgraded_protocol,
    validate_properties,
    with_owner_of,
    without_owner,
)
from adelta.kernel.table_properties import CONSTRAINT_PREFIX
from adelta.kernel.transaction.creation import NewTable
from adelta.kernel.transaction.restoring import joined_protocol, merged_marks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from adelta.kernel.actions.domain_metadata import DomainMetadata
    from adelta.kernel.actions.file_actions import AddFile, DeletionVectorDescriptor
    from adelta.kernel.table_configuration import TableConfiguration

__all__ = [
    "Copy",
    "cloned_definition",
    "copied_file",
    "copies_of",
    "copy_key",
    "drawn_path",
    "mark_of",
    "placed",
    "shallow_file",
]

_NOT_COPIED = (
    IN_COMMIT_TIMESTAMP_ENABLEMENT_VERSION.key,
    IN_COMMIT_TIMESTAMP_ENABLEMENT_TIMESTAMP.key,
    *ROW_TRACKING.outlasting,
    *CATALOG_MANAGED.outlasting,
    CHECKPOINT_PROTECTION_BEFORE.key,
)
_SPACE = uuid.UUID("5a0a7b4e-9f0c-5d0e-8c3b-6f1f3a6a1c57")
_MARK = r"[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"
_COPY = re.compile(rf"((?:.*/)?)part-\d{{5,}}-({_MARK}\.c000\.parquet)", re.DOTALL)
_VECTOR_COPY = re.compile(rf"(?:[0-9a-f]{{16}}/)?(deletion_vector_{_MARK}\.bin)")


@dataclass(frozen=True, slots=True)
class Copy:
    """An object to copy: its path in the source's log, its copy's mark, and its size if known."""

    source: str
    mark: str
    size: int | None


def cloned_definition(
    source: TableConfiguration,
    target: TableConfiguration | None,
    properties: Mapping[str, str],
    *,
    now_ms: int,
    new_id: Callable[[], str],
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
    for key, value in asked.items():
        if key.lower().startswith(CONSTRAINT_PREFIX) and stored.get(key) != value:
            raise InvalidPropertyError(
                f"{key} is a constraint, to which nobody has held the source's rows; clone it, and "
                "add the constraint to the clone (add_constraint)"
            )
    protocol, owned = without_owner(source.protocol, source.metadata.with_configuration(stored))
    stored = dict(owned.configuration)
    if source.supports(CATALOG_MANAGED):
        protocol = protocol_without(protocol, CATALOG_MANAGED)
    before = source.metadata.with_configuration(stored)
    after = before.with_configuration({**stored, **stored_properties(asked)})
    protocol = upgraded_protocol(protocol, before, after, asked) or protocol
    after = replace(after, id=new_id(), name=None, description=None, created_time=now_ms)
    if target is not None:
        protocol = joined_protocol(outlasting_protocol(target.protocol, after), protocol)
        kept = {**after.configuration, **outlasting_properties(target, after)}
        after = replace(
            after.with_configuration(kept),
            id=target.metadata.id,
            name=target.metadata.name,
            description=target.metadata.description,
            created_time=target.metadata.created_time,
        )
        after = merged_marks(target, after)
        if not any(kind.has_owner(after) for kind in KINDS):
            protocol, after = with_owner_of(target, protocol, after)
    after = completed_metadata(before, after, protocol, new_id)
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

    It is named by its marks, to which each copy's own name adds what is drawn by lot.
    """
    origin = f"{_absolute(file.path, root)}|{file.size}|{file.modification_time}"
    folders = [part for part in decode_path(file.path).split("/")[:-1] if "=" in part]
    name = f"part-00000-{uuid.uuid5(_SPACE, origin)}.c000.parquet"
    vector = file.deletion_vector
    if vector is not None and vector.storage_type != "i":
        unique = uuid.uuid5(_SPACE, _absolute(vector_path(vector), root))
        vector = replace(vector, storage_type="u", path_or_inline_dv=encode_relative(unique))
    return _own(file, encode_path("/".join((*folders, name))), vector)


def mark_of(path: str) -> str:
    """What the path of a copy says of the object that was copied; other paths are as they are.

    Example: ``p=1/part-7025-`` and a name that follows from the object is ``p=1/part-00000-`` and
    that name.
    """
    if (data := _COPY.fullmatch(path)) is not None:
        return f"{data[1]}part-00000-{data[2]}"
    vector = _VECTOR_COPY.fullmatch(path)
    return path if vector is None else vector[1]


def drawn_path(mark: str, lot: int) -> str:
    """The path of a copy of the object with a mark, which nobody else has who draws another lot.

    Two who copy the same at once write to different paths, and what one of them gives up is not
    what the other has committed. Nor is it a path that the table once had, and VACUUM is deleting.
    """
    folder, start, name = mark.rpartition("part-00000-")
    return f"{folder}part-{lot:020}-{name}" if start else f"{lot:016x}/{mark}"


def copy_key(file: AddFile, root: str) -> tuple[str, str | None]:
    """The marks of a file of the table at `root`, and of its deletion vector.

    It is equal for a file and its copy as `copied_file` has it.
    """
    vector = file.deletion_vector
    if vector is None:
        return mark_of(canonical_path(file.path, root)), None
    if vector.storage_type == "i":
        place = vector.path_or_inline_dv
    else:
        place = mark_of(canonical_path(vector_path(vector), root))
    return mark_of(canonical_path(file.path, root)), f"{place}@{vector.offset}"


def copies_of(file: AddFile, copy: AddFile) -> Iterator[Copy]:
    """What has to be copied for a file, where `copy` stands for it in the other table."""
    yield Copy(file.path, decode_path(copy.path), file.size)
    if file.deletion_vector is not None and file.deletion_vector.storage_type != "i":
        assert copy.deletion_vector is not None
        vector = decode_path(vector_path(copy.deletion_vector))
        yield Copy(vector_path(file.deletion_vector), vector, None)


def placed(copy: AddFile, paths: Mapping[str, str]) -> AddFile:
    """A file of `copied_file` where it is: `paths` are those of copies by their marks."""
    vector = copy.deletion_vector
    if vector is not None and vector.storage_type == "u":
        prefix = paths[decode_path(vector_path(vector))].rpartition("/")[0]
        vector = replace(vector, path_or_inline_dv=prefix + vector.path_or_inline_dv)
    return replace(copy, path=encode_path(paths[decode_path(copy.path)]), deletion_vector=vector)


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
