"""Many lines of file actions at once: Arrow's JSON reader in place of a Python object a line.

It holds no interpreter's lock and makes columns directly, but knows fewer shapes than the log may
have. So whatever is not plainly one of them is left to the decoder of lines, in `json`, which also
has the errors: lines that are not all of file actions, fields that the protocol does not name,
numbers where texts belong, keys of `partitionValues` that not every line has, keys given twice.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson
import pyarrow as pa
import pyarrow.json

from adelta import _compute as pc
from adelta._arrow_values import array_of, scalar_of
from adelta.kernel.actions.file_schemas import STRING_MAP

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["OF_EVERY_VECTOR", "decode_lines"]

OF_EVERY_VECTOR = ("storageType", "pathOrInlineDv", "sizeInBytes", "cardinality")
"""Fields without which a deletion vector has no identity."""

arrow: Any = pa  # likewise of types that are known at run time only
Values: TypeAlias = Any
"""A pa.Array, of a type that is known at run time only."""

_NULL_BLOCK = 16 * 1024


class _Unknown(Exception):
    """The lines are not of a shape that is known here."""


def decode_lines(
    block: bytes, kinds: Mapping[str, tuple[pa.Schema, Mapping[str, str]]]
) -> dict[str, pa.Table] | None:
    """The file actions of whole lines, by kind; None where they are not plainly just that.

    `kinds` are the kinds that may be there, each with the schema of its table, and the log's names
    of the columns.

    Example: of ``{"add":{"path":"a"}}`` the table of `add` has the path a, and else nulls.
    """
    lines = block.count(b"\n") + 1
    first = _first_lines(block, kinds, lines)
    if first is None:
        return None
    try:
        types = {
            kind: _type(orjson.loads(line)[kind], *kinds[kind]) for kind, line in first.items()
        }
        rows = _read(block, types)
        if len(rows) != lines:
            return None
        return {kind: _table(rows.column(kind), *kinds[kind]) for kind in types}
    except (_Unknown, pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
        return None


def _first_lines(block: bytes, kinds: Iterable[str], lines: int) -> dict[str, bytes] | None:
    """The first line of each kind that is there; None where an object may not be on one line.

    A line that ends an object and the next one that begins one have a line break between objects,
    or else a break within a text, which is no JSON. Where every break is of this sort, and there
    are as many objects as lines, none is on several lines and no line has several.
    """
    first = {}
    left = lines
    for kind in kinds:
        prefix = f'{{"{kind}":{{'.encode()
        at = 0 if block.startswith(prefix) else block.find(b"}\n" + prefix) + 2
        if at == 1:
            continue
        end = block.find(b"\n", at)
        first[kind] = block[at:end] if end >= 0 else block[at:]
        left -= block.count(b"}\n" + prefix) + (at == 0)
        if not left:
            return first if block.endswith(b"}") else None
    return None


def _type(body: Mapping[str, Any], schema: pa.Schema, names: Mapping[str, str]) -> pa.DataType:
    """What an action of one kind is to be read as, with maps of the keys that the first one has."""
    fields: list[tuple[str, Any]] = []
    for column in schema:
        name, kind = names[column.name], column.type
        if kind.equals(STRING_MAP):
            found = body.get(name)
            if not isinstance(found, dict | None):
                raise _Unknown
            kind = pa.null() if found is None else arrow.struct([(k, pa.string()) for k in found])
        fields.append((name, kind))
    found_type: pa.DataType = arrow.struct(fields)
    return found_type


def _read(block: bytes, types: Mapping[str, pa.DataType]) -> pa.Table:
    length = len(block)
    whole = [None, array_of([0, length], pa.int64()).buffers()[1], pa.py_buffer(block)]
    pa.Array.from_buffers(pa.large_binary(), 1, whole).cast(pa.large_string())  # it is UTF-8
    return pyarrow.json.read_json(
        pa.BufferReader(block),  # type: ignore[arg-type]  # a file, if not Python's
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=length + 1),
        parse_options=pyarrow.json.ParseOptions(
            explicit_schema=arrow.schema(list(types.items())), unexpected_field_behavior="error"
        ),
    )


def _table(actions: Values, schema: pa.Schema, names: Mapping[str, str]) -> pa.Table:
    """The actions of one kind, of rows that have others too, as a table of `schema`."""
    actions = actions.combine_chunks()
    if actions.null_count:
        actions = actions.drop_null()
    rows = len(actions)
    columns = []
    for column in schema:
        values = pc.struct_field(actions, names[column.name])
        if values.null_count == rows:
            columns.append(_nulls(rows, column.type))
        elif column.type.equals(STRING_MAP):
            columns.append(_maps(values))
        else:
            columns.append(values)
    table = pa.Table.from_arrays(columns, schema=schema)
    _check(table)
    return table


def _check(table: pa.Table) -> None:
    if table.column("path").null_count:
        raise _Unknown
    if "deletion_vector" not in table.schema.names:
        return
    vectors = table.column("deletion_vector")
    for name in OF_EVERY_VECTOR:
        if pc.struct_field(vectors, name).null_count > vectors.null_count:
            raise _Unknown


def _maps(values: Values) -> Values:
    """Structs of texts as maps: every row has every key."""
    names = [field.name for field in values.type]
    columns = values.flatten()
    if values.null_count or any(column.null_count for column in columns):
        raise _Unknown  # a key without a value, or no key
    rows, width = len(values), len(names)
    none = scalar_of(0, pa.int64())
    offsets = arrow.arange(0, rows * width + 1, width) if width else arrow.repeat(none, rows + 1)
    keys, items = _repeated(names, rows), _alternating(columns, rows)
    return arrow.MapArray.from_arrays(offsets.cast(pa.int32()), keys, items, type=STRING_MAP)


def _repeated(names: Sequence[str], rows: int) -> Values:
    if len(names) == 1:
        return arrow.repeat(scalar_of(names[0], pa.string()), rows)
    return array_of(list(names) * rows, pa.string())


def _alternating(columns: Sequence[Values], rows: int) -> Values:
    """The first value of each column, then the second of each, and so on."""
    if len(columns) == 1:
        return columns[0]
    if not columns:
        return array_of([], pa.string())
    places = arrow.arange(0, rows * len(columns))
    width, height = (scalar_of(count, pa.int64()) for count in (len(columns), rows))
    row = pc.divide(places, width)
    column = pc.subtract(places, pc.multiply(row, width))
    return arrow.concat_arrays(list(columns)).take(pc.add(pc.multiply(column, height), row))


def _nulls(rows: int, kind: pa.DataType) -> Values:
    """Nulls that share their memory with those of other tables, unless they are very many."""
    return _null_block(kind).slice(0, rows) if rows <= _NULL_BLOCK else arrow.nulls(rows, kind)


@lru_cache(maxsize=32)
def _null_block(kind: pa.DataType) -> Values:
    return arrow.nulls(_NULL_BLOCK, kind)
