"""What must hold of staged changes before they go into a log (PROTOCOL.md, "Actions").

Within one commit actions have no order, so nothing may be said twice: a path is added once at the
most, and removed once, whatever the deletion vectors; and what is removed is not added as well.

What a user says of a file is checked once, when it is handed over, and what adelta has found out
about a file that it wrote is not checked again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

from adelta._arrow_values import array_of
from adelta._fields import check_fields, is_text
from adelta.errors import InvalidOptionError, InvalidTableError
from adelta.kernel.actions.file_actions import AddFile, DeletionVectorDescriptor, decode_path
from adelta.kernel.file_id import FileId, FileIds, paths_of
from adelta.kernel.partition import parse_partition_values
from adelta.kernel.statistics import num_records
from adelta.kernel.table_features import DELETION_VECTORS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from adelta.kernel.schema.types import StructField
    from adelta.kernel.staged import StagedChanges
    from adelta.kernel.table_configuration import TableConfiguration

__all__ = ["check_existing_files", "check_files", "check_staged"]

_VECTOR_KINDS = ("u", "i", "p")


def check_staged(
    staged: StagedChanges, partition_columns: Sequence[str], *, root: str, counted: bool = False
) -> None:
    """Refuse changes that would damage the log; `partition_columns` are physical names.

    `counted` is whether every file that is added has to say how many rows it holds.

    Raises:
        InvalidOptionError: a file is added or removed twice, a domain is set twice; a file
            has values of other partition columns than the table's, or does not say its rows.
    """
    added = _twice(FileId.of(file, root).path for file in staged.adds)
    if added is not None:
        raise InvalidOptionError(f"the file {added!r} is added twice in one commit; add it once")
    removed = FileIds.of_table(staged.removes, root)
    if len(paths_of(removed.texts)) != staged.removes.num_rows:
        raise InvalidOptionError("a file is removed twice in one commit; remove it once")
    both = FileIds.of(staged.adds, root) & removed if len(removed) else removed
    if len(both):
        raise InvalidOptionError(
            f"the file {both.first().path!r} is removed and added in one commit, of which engines "
            "make different things; a file that stays needs neither"
        )
    domain = _twice(each.domain for each in staged.domains)
    if domain is not None:
        raise InvalidOptionError(f"the domain {domain!r} is set twice in one commit; set it once")
    wanted = set(partition_columns)
    for file in staged.adds:
        if set(file.partition_values) != wanted:
            raise InvalidOptionError(
                f"the file {file.path!r} has values for the partition columns "
                f"({', '.join(file.partition_values)}), but the table's are "
                f"({', '.join(partition_columns)}); give a value, or None, for each of these"
            )
        if counted and num_records(file.stats) is None:
            raise InvalidOptionError(
                f"the file {file.path!r} has no numRecords in its statistics, which the table's "
                "compatibility with Iceberg demands; add it with statistics"
            )


def check_files(files: Iterable[AddFile]) -> tuple[AddFile, ...]:
    """The files that a caller names.

    Raises:
        InvalidOptionError: it is no list of `AddFile`.
    """
    try:
        taken = tuple(files)
    except TypeError as error:
        raise InvalidOptionError(f"{files!r:.100} is no list of AddFile; pass a list") from error
    for each in taken:
        if not isinstance(each, AddFile):
            raise InvalidOptionError(
                f"{each!r:.100} is no AddFile; pass files as Transaction.read gives them"
            )
        _check_kinds(each)
    return taken


def check_existing_files(
    files: Iterable[AddFile], configuration: TableConfiguration
) -> tuple[AddFile, ...]:
    """The files that a caller adds to a table, which others will find and skip by what it says.

    Columns that the table does not have are let be in statistics, as readers do.

    Raises:
        InvalidOptionError: it is no list of `AddFile`; a partition value is none of its column's
            type, statistics are not the JSON that they have to be, or it has a deletion vector and
            the table does not support these.
    """
    taken = check_files(files)
    names = configuration.physical_partition_columns
    for name, field in zip(names, configuration.partition_fields, strict=True):
        _check_values(taken, name, field)
    vectors = configuration.supports(DELETION_VECTORS)
    for file in taken:
        if file.deletion_vector is not None and not vectors:
            raise InvalidOptionError(
                f"the file {file.path!r} has a deletion vector, which engines would not look for "
                f"in this table; add the feature {DELETION_VECTORS.name} first (add_feature)"
            )
        if file.stats is not None and (wrong := _wrong_in_stats(file.stats)) is not None:
            raise InvalidOptionError(
                f"the file {file.path!r} has the statistics {file.stats!r:.100}, {wrong}; correct "
                "them, or leave them out (None)"
            )
    return taken


def _check_values(files: Sequence[AddFile], name: str, field: StructField) -> None:
    texts = [file.partition_values.get(name) for file in files]
    try:
        parse_partition_values(array_of(texts, pa.string()), field.type, column=field.name)
    except InvalidTableError:
        for file, text in zip(files, texts, strict=True):
            try:
                parse_partition_values(array_of([text], pa.string()), field.type)
            except InvalidTableError as error:
                raise InvalidOptionError(
                    f"the file {file.path!r} has the value {text!r:.100} for the partition column "
                    f"{field.name!r}, which is not a {field.type}; give a text of that type, as "
                    "Delta writes it, or None"
                ) from error
        raise


def _wrong_in_stats(text: str) -> str | None:
    """What is wrong with the statistics of a file, as a clause."""
    try:
        stats = orjson.loads(text)
    except orjson.JSONDecodeError:
        return "which are no JSON"
    if not isinstance(stats, dict):
        return "which are no JSON object"
    count = stats.get("numRecords")
    if type(count) is not int or not 0 <= count < 2**63:
        return "whose numRecords is no whole number of rows"
    for name in ("minValues", "maxValues", "nullCount"):
        if not isinstance(stats.get(name), dict | None):
            return f"whose {name} is no JSON object by columns"
    return None


def _check_kinds(file: AddFile) -> None:
    """Refuse an `add` that a reader could not read, or would read as another one."""
    wrong = next((name for name, right in _kinds(file) if not right), None)
    if wrong is not None:
        raise InvalidOptionError(
            f"an AddFile has the {wrong} {getattr(file, wrong)!r:.100}, which the log cannot hold; "
            "paths, statistics and partition values are texts, sizes and times whole numbers"
        )


def _kinds(file: AddFile) -> Iterator[tuple[str, bool]]:
    """For each field whether it is of its kind."""
    values: dict[str, Any] = {name: getattr(file, name) for name in AddFile.__slots__}
    yield "path", is_text(values["path"]) and _is_relative_or_uri(values["path"])
    yield "size", type(values["size"]) is int and 0 <= values["size"] < 2**63
    yield "data_change", isinstance(values["data_change"], bool)
    for name in ("stats", "clustering_provider"):
        yield name, values[name] is None or is_text(values[name])
    for name in ("modification_time", "base_row_id", "default_row_commit_version"):
        least = -(2**63) if name == "modification_time" else 0
        number = values[name]
        yield name, number is None or (type(number) is int and least <= number < 2**63)
    for name in ("partition_values", "tags"):
        yield name, _is_text_map(values[name], optional=name == "tags")
    yield "deletion_vector", _is_vector(values["deletion_vector"])


def _is_vector(value: object) -> bool:
    """Whether a reader finds a deletion vector by it, or it says that there is none."""
    if not isinstance(value, DeletionVectorDescriptor):
        return value is None
    try:
        check_fields(value)
    except InvalidOptionError:
        return False
    numbers = (value.size_in_bytes, value.cardinality, value.offset or 0)
    return value.storage_type in _VECTOR_KINDS and min(numbers) >= 0


def _is_text_map(value: object, *, optional: bool) -> bool:
    if not isinstance(value, Mapping):
        return optional and value is None
    return all(is_text(k) and (v is None or is_text(v)) for k, v in value.items())


def _is_relative_or_uri(path: str) -> bool:
    """Whether a data file can be there: below the table's root but not in its log, or elsewhere."""
    decoded = decode_path(path)
    outside = ".." in decoded.split("/") or decoded.startswith(("_delta_log/", "/_delta_log/"))
    return bool(decoded) and "\x00" not in decoded and not outside


def _twice(names: Iterable[str]) -> str | None:
    return next((name for name, count in Counter(names).items() if count > 1), None)
