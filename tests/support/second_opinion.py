"""What other readers say of the tables that a test has left behind.

Every table that adelta reads has to be read the same by deltalake; where that cannot read it, or
reads it differently, by the plain reader beside this file.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa

import adelta.sync
from adelta.errors import AdeltaError
from tests.support.plain_reader import CannotRead, read_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["compare_readers", "tables_below"]

_MOST_ROWS = 20_000


def tables_below(folder: Path) -> Iterator[Path]:
    """The roots of the tables in a folder."""
    for log in folder.rglob("_delta_log"):
        if log.is_dir() and any(log.glob("*.json")):
            yield log.parent


def compare_readers(root: Path) -> None:
    """Assert that another reader finds the rows that adelta finds.

    A table that adelta does not read, such as one that a test has damaged, is left alone.
    """
    try:
        with adelta.sync.open_table(str(root)) as table:
            snapshot = table.snapshot()
            files = snapshot.files()
            if files.num_rows > 1000 or (snapshot.scan().count() or 0) > _MOST_ROWS:
                return
            ours = _rows(snapshot.scan().to_arrow())
    except (AdeltaError, OSError):
        return
    theirs = _deltalake(root)
    if theirs == ours:
        return
    try:
        plain = _rows(read_rows(root))
    except CannotRead:
        assert theirs is None, f"{root}: deltalake differs: {_difference(ours, theirs)}"
        return
    assert plain == ours, f"{root}: the plain reader differs: {_difference(ours, plain)}"


def _deltalake(root: Path) -> Counter[str] | None:
    try:
        table = deltalake.DeltaTable(str(root))
        reader = deltalake.QueryBuilder().register("t", table).execute("select * from t")
        return _rows(pa.table(reader.read_all()))
    except BaseException as error:  # a panic of Rust's is no Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        return None


def _rows(table: pa.Table) -> Counter[str]:
    plain = table.cast(pa.schema([(f.name, _plain(f.type)) for f in table.schema]))
    names = plain.column_names
    columns = [column.to_pylist() for column in plain.columns]
    return Counter(
        repr([(name, _ordered(value)) for name, value in zip(names, row, strict=True)])
        for row in zip(*columns, strict=True)
    )


def _ordered(value: Any) -> Any:
    """A value whose structs name their fields in one order: engines differ in that of variants."""
    if isinstance(value, dict):
        return {name: _ordered(value[name]) for name in sorted(value)}
    if isinstance(value, list | tuple):  # of a map's pairs
        return type(value)(_ordered(item) for item in value)
    return value


def _plain(data_type: pa.DataType) -> pa.DataType:
    """The type in which every engine's values are written alike."""
    kind: Any = pa.types
    if isinstance(data_type, pa.BaseExtensionType):
        return _plain(data_type.storage_type)
    if kind.is_dictionary(data_type):
        return _plain(data_type.value_type)
    if kind.is_timestamp(data_type):
        return pa.int64()
    if kind.is_date(data_type):
        return pa.int32()
    if kind.is_large_string(data_type) or str(data_type) == "string_view":
        return pa.string()
    if kind.is_large_binary(data_type) or str(data_type) == "binary_view":
        return pa.binary()
    if kind.is_struct(data_type):
        return pa.struct([(f.name, _plain(f.type)) for f in data_type.fields])
    if kind.is_map(data_type):
        return pa.map_(_plain(data_type.key_type), _plain(data_type.item_type))
    if kind.is_list(data_type) or kind.is_large_list(data_type):
        return pa.list_(_plain(data_type.value_type))
    return data_type


def _difference(ours: Counter[str], theirs: Counter[str] | None) -> str:
    theirs = theirs or Counter()
    only = (list((ours - theirs).elements())[:3], list((theirs - ours).elements())[:3])
    return f"adelta alone has {only[0]}, the other one {only[1]}"
