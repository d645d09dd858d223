"""`geometry` and `geography`: shapes on a plane and on the globe, as well-known binary (WKB).

The schema string names such a type with its coordinate reference system (``geometry(EPSG:3857)``),
and on the globe with the way that edges run between points (``geography(OGC:CRS84, SPHERICAL)``).
In Arrow it is binary under GeoArrow's name ``geoarrow.wkb``, as a mark on the field or as an
extension type, which says the same two things.
"""

from __future__ import annotations

import re
import struct
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final

import orjson

from adelta import _compute as pc
from adelta._arrow_values import column_of
from adelta._dataclasses import dataclass
from adelta._lazy_arrow import pa
from adelta.errors import InvariantViolationError, SchemaMismatchError
from adelta.kernel.schema.types import BINARY, ArrayType, MapType, PrimitiveType, StructType

if TYPE_CHECKING:
    from adelta.kernel.schema.types import DataType

__all__ = [
    "DEFAULT_ALGORITHM",
    "Shape",
    "check_same_system",
    "check_shape",
    "check_wkb",
    "crs_of_srid",
    "holds_shapes",
    "is_shape_field",
    "marked_shape",
    "marks_of",
    "shape_of",
    "takes_shapes",
]


DEFAULT_CRS: Final = "OGC:CRS84"
"""Longitude and latitude on WGS 84, which a type that names no system has."""

UNKNOWN_CRS: Final = "SRID:0"
"""Some plane: nobody has said which."""

DEFAULT_ALGORITHM: Final = "SPHERICAL"

ALGORITHMS: Final = ("SPHERICAL", "VINCENTY", "THOMAS", "ANDOYER", "KARNEY")
"""How edges run on the globe (Parquet's edge interpolation algorithms)."""

_GEOMETRY, _GEOGRAPHY = "geometry", "geography"
_TEXT = re.compile(r"(geometry|geography)(?:\(\s*([^(),]*?)\s*(?:,\s*([^(),]*?)\s*)?\))?")
_CRS = re.compile(r"\w+:-?\w+")
_NAME, _METADATA = b"ARROW:extension:name", b"ARROW:extension:metadata"
_WKB = "geoarrow.wkb"
_LONGITUDE_LATITUDE = {"EPSG:4326", DEFAULT_CRS}
_FIRST_ESRI = 100_000


@dataclass(frozen=True, slots=True)
class Shape:
    """What a type says of the shapes in a column.

    Attributes:
        crs: the coordinate reference system, as an authority and its code.
        algorithm: how edges run on the globe, in capitals; None for shapes on a plane.
    """

    crs: str
    algorithm: str | None = None

    @property
    def type(self) -> PrimitiveType:
        """The type, under the name that every writer gives it."""
        if self.algorithm is None:
            return PrimitiveType(f"{_GEOMETRY}({self.crs})")
        return PrimitiveType(f"{_GEOGRAPHY}({self.crs}, {self.algorithm})")


def shape_of(data_type: DataType) -> Shape | None:
    """What a type says of shapes; None for a type of other values.

    Example: ``geography(karney)`` is on the globe, in the default system.
    """
    return _parsed(data_type.name) if isinstance(data_type, PrimitiveType) else None


def holds_shapes(data_type: DataType) -> bool:
    """Whether a type is one of shapes, or has such a type inside it."""
    match data_type:
        case StructType(fields):
            return any(holds_shapes(field.type) for field in fields)
        case ArrayType(element):
            return holds_shapes(element)
        case MapType(key, value):
            return holds_shapes(key) or holds_shapes(value)
    return shape_of(data_type) is not None


@lru_cache(maxsize=256)
def _parsed(name: str) -> Shape | None:
    match = _TEXT.fullmatch(name)
    if match is None:
        return None
    kind, crs, algorithm = match.groups()
    if kind == _GEOMETRY:
        return Shape(DEFAULT_CRS if crs is None else crs) if algorithm is None else None
    if algorithm is None and crs is not None and crs.upper() in ALGORITHMS:
        crs, algorithm = None, crs
    system = DEFAULT_CRS if crs is None else crs
    return Shape(system, (DEFAULT_ALGORITHM if algorithm is None else algorithm).upper())


def takes_shapes(column: DataType, data: DataType) -> bool:
    """Whether a column of one type takes in shapes of another one as they are.

    Plain binary and shapes of a system that nobody knows are taken to be the column's.
    """
    ours, theirs = shape_of(column), shape_of(data)
    if ours is None or theirs is None:
        return ours is not None and data == BINARY
    return _are_alike(ours, theirs) or theirs == Shape(UNKNOWN_CRS)


def _are_alike(one: Shape, other: Shape) -> bool:
    """Whether two types are one: WKB has the longitude first in EPSG:4326 as in OGC:CRS84."""
    same = one.crs == other.crs or {one.crs, other.crs} == _LONGITUDE_LATITUDE
    return same and one.algorithm == other.algorithm


def crs_of_srid(srid: int) -> str:
    """The system that Spark's SQL means by a number.

    Example: 4326 is ``OGC:CRS84``, 3857 is ``EPSG:3857``, and 0 is any plane, ``SRID:0``.
    """
    if srid == 4326:
        return DEFAULT_CRS
    if srid == 0:
        return UNKNOWN_CRS
    return f"{'EPSG' if srid < _FIRST_ESRI else 'ESRI'}:{srid}"


def check_shape(shape: Shape, path: str) -> None:
    """Refuse a type that writers may not give to the column at `path`.

    Raises:
        SchemaMismatchError: its system is not one, or there is no such algorithm.
    """
    if shape.crs.upper() == "SRID:ANY":
        raise SchemaMismatchError(
            f"column {path!r} is of type {shape.type}, and the shapes of a column must all be of "
            f"one coordinate reference system; name it, as in {_GEOMETRY}({DEFAULT_CRS})"
        )
    if not _CRS.fullmatch(shape.crs):
        raise SchemaMismatchError(
            f"column {path!r} has the coordinate reference system {shape.crs[:80]!r}; name it by "
            f"its authority and its code, such as {DEFAULT_CRS} or EPSG:3857"
        )
    if shape.algorithm is not None and shape.algorithm not in ALGORITHMS:
        raise SchemaMismatchError(
            f"column {path!r} has edges of the kind {shape.algorithm[:80]!r}; there are "
            f"{', '.join(ALGORITHMS)}"
        )


# ------------------------------------------------------------------------------------------ marks


@dataclass(frozen=True, slots=True)
class _Mark:
    """What GeoArrow's metadata say; each is None where they say nothing."""

    crs: str | None
    algorithm: str | None

    def shape(self) -> Shape:
        unnamed = UNKNOWN_CRS if self.algorithm is None else DEFAULT_CRS
        return Shape(self.crs or unnamed, self.algorithm)


def marks_of(shape: Shape) -> dict[bytes | str, bytes | str]:
    """The field metadata by which GeoArrow tells shapes from other binary values."""
    properties: dict[str, str] = {}
    if shape.crs != UNKNOWN_CRS:
        properties = {"crs": shape.crs, "crs_type": "authority_code"}
    if shape.algorithm is not None:
        properties["edges"] = shape.algorithm.lower()
    return {_NAME: _WKB.encode(), _METADATA: orjson.dumps(properties)}


def is_shape_field(field: pa.Field[Any]) -> bool:
    """Whether an Arrow field is marked as holding shapes as WKB."""
    return (field.metadata or {}).get(_NAME) == _WKB.encode() or _is_wkb(field.type)


def marked_shape(given: pa.Field[Any] | pa.DataType, path: str) -> Shape | None:
    """The shapes that a field, or its type, is marked as holding; None where it has no mark.

    A mark without a system means one that is unknown, and on the globe the default one.

    Raises:
        SchemaMismatchError: the mark names its system in a way that has no authority and code.
    """
    mark = _mark(given, path)
    return None if mark is None else mark.shape()


def check_same_system(given: pa.Field[Any] | pa.DataType, wanted: pa.Field[Any], path: str) -> None:
    """Refuse shapes that say of themselves to be others than those of the table's column.

    Shapes that say nothing are taken to be the column's.

    Raises:
        SchemaMismatchError: the system differs, or one is on a plane and the other on the globe.
    """
    mark = _mark(given, path)
    shape = marked_shape(wanted, path)
    if mark is None or shape is None or mark == _Mark(None, None):
        return
    theirs = Shape(mark.crs or shape.crs, mark.algorithm)
    if not _are_alike(theirs, shape):
        raise SchemaMismatchError(
            f"column {path!r} is of type {shape.type} in the table and {theirs.type} in the "
            "data; transform the shapes first, or give plain binary where only the mark is wrong"
        )


def _is_wkb(data_type: pa.DataType) -> bool:
    return isinstance(data_type, pa.BaseExtensionType) and data_type.extension_name == _WKB


def _mark(given: pa.Field[Any] | pa.DataType, path: str) -> _Mark | None:
    data_type, metadata = (
        (given.type, given.metadata or {}) if isinstance(given, pa.Field) else (given, {})
    )
    if isinstance(data_type, pa.ExtensionType) and data_type.extension_name == _WKB:
        return _read_mark(data_type.__arrow_ext_serialize__(), path)
    if metadata.get(_NAME) == _WKB.encode():
        return _read_mark(metadata.get(_METADATA, b""), path)
    return None


@lru_cache(maxsize=256)
def _read_mark(text: bytes, path: str) -> _Mark:
    try:
        properties = orjson.loads(text or b"{}")
        edges = str(properties.get("edges") or "planar")
        crs = _system(properties.get("crs"), properties.get("crs_type"))
    except (orjson.JSONDecodeError, AttributeError, TypeError, ValueError) as error:
        raise SchemaMismatchError(
            f"column {path!r} is marked as {_WKB} with {text[:80]!r}, which names no coordinate "
            f"reference system by authority and code ({error}); mark it with one, such as "
            f'{{"crs": "{DEFAULT_CRS}"}}'
        ) from error
    return _Mark(crs, None if edges == "planar" else edges.upper())


def _system(crs: object, kind: object) -> str | None:
    """The system that GeoArrow's metadata name: as text, as a number, or in PROJJSON."""
    if crs is None:
        return None
    if kind == "srid":
        return crs_of_srid(int(str(crs)))
    if isinstance(crs, dict):
        named = crs["id"] if "id" in crs else next(iter(crs.get("ids") or ()), {})
        crs = f"{named.get('authority', '')}:{named.get('code', '')}"
        crs = DEFAULT_CRS if crs in _LONGITUDE_LATITUDE else crs
    if not isinstance(crs, str) or not _CRS.fullmatch(crs):
        raise ValueError(f"it has {str(crs)[:40]!r}")
    return crs


# -------------------------------------------------------------------------------------------- WKB

_POINT = 1
_LAST_KIND = 7
_HEADER = 5
_LEAST = 9
"""Bytes of anything but a point: the header, and how many parts there are."""

_EXTENDED = 0xE0000000


@dataclass(frozen=True, slots=True)
class _Headers:
    """How a value may begin, and how long a value that begins so is."""

    texts: pa.Array[Any]
    least: pa.Array[Any]
    exact: pa.Array[Any]


@cache
def _headers() -> _Headers:
    texts, least, exact = [], [], []
    for order, code in ((0, ">I"), (1, "<I")):
        for dimensions, coordinates in enumerate((2, 3, 3, 4)):  # XY, XYZ, XYM, XYZM
            for kind in range(_POINT, _LAST_KIND + 1):
                texts.append(bytes([order]) + struct.pack(code, dimensions * 1000 + kind))
                exact.append(kind == _POINT)
                least.append(_HEADER + 8 * coordinates if kind == _POINT else _LEAST)
    return _Headers(column_of(texts, pa.binary()), column_of(least, pa.int32()), pa.array(exact))


def check_wkb(values: pa.Array[Any], path: str) -> None:
    """Refuse binary values that do not begin as WKB does, or are too short for how they begin.

    A point is checked in its length too. What stands behind the first header of other shapes is for
    the writer of the file to look at.

    Raises:
        InvariantViolationError: there is such a value; the message shows the first one.
    """
    headers = _headers()
    begins = pc.index_in(pc.binary_slice(values, 0, _HEADER), value_set=headers.texts)
    length, least = pc.binary_length(values), headers.least.take(begins)
    whole = pc.if_else(
        headers.exact.take(begins), pc.equal(length, least), pc.greater_equal(length, least)
    )
    damaged = pc.and_(values.is_valid(), pc.invert(pc.fill_null(whole, False)))
    count = pc.sum(damaged).as_py()
    if count:
        first = values.filter(damaged)[0].as_py()
        raise InvariantViolationError(
            f"column {path!r} holds shapes as well-known binary (WKB), and {count} of "
            f"{len(values)} values given for it are none, such as {first[:24].hex()!r} of "
            f"{len(first)} bytes: {_why(first)}"
        )


def _why(value: bytes) -> str:
    if len(value) < _HEADER:
        return "it is too short for a header"
    if value[0] > 1:
        return "it begins with neither byte order, 00 or 01"
    code = int.from_bytes(value[1:_HEADER], "little" if value[0] else "big")
    if code & _EXTENDED:
        return "it is PostGIS's extended form (EWKB); give ISO WKB, as ST_AsBinary makes it"
    if not (code < 4000 and _POINT <= code % 1000 <= _LAST_KIND):
        return f"there is no shape of the kind {code}"
    return "its length is wrong for its kind of shape"
