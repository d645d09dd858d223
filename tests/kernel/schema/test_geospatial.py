"""Types of shapes, their marks in Arrow, and the headers of well-known binary (B2-31)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adelta.errors import InvalidOptionError, InvariantViolationError, SchemaMismatchError
from adelta.kernel.schema import types as t
from adelta.kernel.schema.arrow import from_arrow_schema, to_arrow_schema
from adelta.kernel.schema.cast import cast_to_schema
from adelta.kernel.schema.evolution import merge_schemas
from adelta.kernel.schema.geospatial import Shape, check_shape, check_wkb, shape_of
from adelta.kernel.schema.type_text import parse_type
from tests.support.shapes import WkbType, line, marked, point

PROJJSON: dict[str, Any] = {"type": "ProjectedCRS", "id": {"authority": "EPSG", "code": 3857}}
MERCATOR = "geometry(EPSG:3857)"


def column(name: str) -> t.StructType:
    return t.StructType((t.StructField("g", t.PrimitiveType(name)),))


# ------------------------------------------------------------------------------------------- types


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("geometry", Shape("OGC:CRS84")),
        ("geometry(OGC:CRS84)", Shape("OGC:CRS84")),
        ("geometry( EPSG:3857 )", Shape("EPSG:3857")),
        ("geography", Shape("OGC:CRS84", "SPHERICAL")),
        ("geography(karney)", Shape("OGC:CRS84", "KARNEY")),
        ("geography(EPSG:4269)", Shape("EPSG:4269", "SPHERICAL")),
        ("geography(OGC:CRS84, spherical)", Shape("OGC:CRS84", "SPHERICAL")),
        ("geography( OGC:CRS84 ,Vincenty)", Shape("OGC:CRS84", "VINCENTY")),
        ("geometrical", None),
        ("geometry(OGC:CRS84, SPHERICAL)", None),
        ("geometry(OGC:CRS84", None),
        ("binary", None),
    ],
)
def test_a_type_is_read_in_every_spelling_that_writers_have(name: str, shape: Shape | None) -> None:
    assert shape_of(t.PrimitiveType(name)) == shape


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("geometry", "geometry(OGC:CRS84)"),
        ("GEOMETRY(4326)", "geometry(OGC:CRS84)"),
        ("geometry(3857)", MERCATOR),
        ("geometry(0)", "geometry(SRID:0)"),
        ("geometry(102100)", "geometry(ESRI:102100)"),
        ("geometry(EPSG:3857)", MERCATOR),
        ("geography(4326)", "geography(OGC:CRS84, SPHERICAL)"),
        ("geography(OGC:CRS84, karney)", "geography(OGC:CRS84, KARNEY)"),
        ("array<geography(4326)>", "array<geography(OGC:CRS84, SPHERICAL)>"),
    ],
)
def test_the_text_of_a_type_may_name_the_system_by_its_number(text: str, name: str) -> None:
    assert str(parse_type(text)) == name


@pytest.mark.parametrize("text", ["geometry(", "geometry(<", "geometry(1,2)", "geography(a,b,c)"])
def test_a_text_that_names_no_type_of_shapes_is_refused(text: str) -> None:
    with pytest.raises(InvalidOptionError, match="is no type"):
        parse_type(text)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("geometry(SRID:ANY)", "all be of one coordinate reference system"),
        ("geometry(mine)", "authority and its code"),
        ("geometry()", "authority and its code"),
        ("geography(OGC:CRS84, straight)", "STRAIGHT"),
    ],
)
def test_a_type_that_no_writer_may_give_is_refused(name: str, why: str) -> None:
    shape = shape_of(t.PrimitiveType(name))
    assert shape is not None
    with pytest.raises(SchemaMismatchError, match=why):
        check_shape(shape, "g")


# ------------------------------------------------------------------------------------------- marks


@pytest.mark.parametrize(
    "name",
    [
        "geometry(OGC:CRS84)",
        "geometry(EPSG:4326)",
        "geometry(SRID:0)",
        MERCATOR,
        "geography(OGC:CRS84, KARNEY)",
    ],
)
def test_a_type_survives_its_mark_in_arrow_at_any_depth(name: str) -> None:
    shape = t.PrimitiveType(name)
    fields = (
        t.StructField("g", shape),
        t.StructField("l", t.ArrayType(shape)),
        t.StructField("m", t.MapType(t.STRING, shape)),
        t.StructField("s", column(name)),
    )
    assert from_arrow_schema(to_arrow_schema(t.StructType(fields))) == t.StructType(fields)


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ({}, "geometry(SRID:0)"),
        ({"crs": None, "edges": "planar"}, "geometry(SRID:0)"),
        ({"crs": "OGC:CRS84"}, "geometry(OGC:CRS84)"),
        ({"crs": "EPSG:3857"}, MERCATOR),
        ({"crs": "3857", "crs_type": "srid"}, MERCATOR),
        ({"crs": PROJJSON}, MERCATOR),
        ({"crs": {"ids": [PROJJSON["id"]]}}, MERCATOR),
        ({"crs": {"id": {"authority": "EPSG", "code": 4326}}}, "geometry(OGC:CRS84)"),
        ({"edges": "spherical"}, "geography(OGC:CRS84, SPHERICAL)"),
        ({"crs": "OGC:CRS84", "edges": "andoyer"}, "geography(OGC:CRS84, ANDOYER)"),
    ],
)
def test_geoarrows_marks_and_extension_types_name_a_type(told: dict[str, Any], name: str) -> None:
    for field in (marked("g", **told), pa.field("g", WkbType(**told))):
        assert from_arrow_schema(pa.schema([field])) == column(name)


@pytest.mark.parametrize("crs", ['GEOGCRS["mine"]', {"name": "mine"}, 7, "a:b:c"])
def test_a_mark_whose_system_has_no_code_is_refused(crs: object) -> None:
    with pytest.raises(SchemaMismatchError, match=r"'g' is marked as geoarrow\.wkb"):
        from_arrow_schema(pa.schema([marked("g", crs=crs)]))


@pytest.mark.parametrize(
    "given",
    [
        pa.field("g", pa.binary()),
        pa.field("g", pa.large_binary()),
        marked("g"),
        marked("g", crs="EPSG:3857"),
        marked("g", crs=PROJJSON),
        pa.field("g", WkbType(crs="EPSG:3857")),
    ],
)
def test_shapes_of_the_columns_system_or_of_none_are_taken(given: pa.Field[Any]) -> None:
    stored = pa.array([point(1, 2), None], given.type)
    rows = pa.table([stored], schema=pa.schema([given]))
    taken = cast_to_schema(rows, column(MERCATOR))
    assert taken.to_pydict() == {"g": [point(1, 2), None]}
    assert taken.schema.equals(to_arrow_schema(column(MERCATOR)), check_metadata=True)


@pytest.mark.parametrize(
    "given",
    [
        marked("g", crs="OGC:CRS84"),
        marked("g", crs="EPSG:3857", edges="spherical"),
        marked("g", edges="spherical"),
        pa.field("g", WkbType(crs="OGC:CRS84")),
    ],
)
def test_shapes_of_another_system_are_refused_however_deep(given: pa.Field[Any]) -> None:
    inner = pa.array([point(1, 2)], pa.binary())
    if isinstance(given.type, pa.ExtensionType):
        inner = pa.ExtensionArray.from_storage(given.type, inner)
    flat = pa.table([inner], schema=pa.schema([given]))
    deep = pa.table({"s": pa.StructArray.from_arrays([inner], fields=[given])})
    table = t.StructType((t.StructField("s", column(MERCATOR)),))
    for rows, schema, name in ((flat, column(MERCATOR), "g"), (deep, table, "s.g")):
        with pytest.raises(SchemaMismatchError, match=f"'{name}'.*EPSG:3857.* in the data"):
            cast_to_schema(rows, schema)


def test_one_system_under_two_names_is_the_same() -> None:
    rows = pa.table([[point(1, 2)]], schema=pa.schema([marked("g", crs="EPSG:4326")]))
    assert cast_to_schema(rows, column("geometry(OGC:CRS84)")).num_rows == 1
    merged = merge_schemas(column("geometry(EPSG:4326)"), column("geometry(OGC:CRS84)"))
    assert merged == column("geometry(EPSG:4326)")


def test_merging_keeps_a_columns_system_and_takes_plain_binary_for_it() -> None:
    table = column("geography(OGC:CRS84, spherical)")
    assert merge_schemas(table, column("binary")) == table
    assert merge_schemas(table, column("geography(OGC:CRS84, SPHERICAL)")) == table
    for other in ("geography(OGC:CRS84, KARNEY)", "geometry(OGC:CRS84)", "string"):
        with pytest.raises(SchemaMismatchError, match="in the table and"):
            merge_schemas(table, column(other))
    with pytest.raises(SchemaMismatchError, match="in the table and"):
        merge_schemas(column("binary"), table)
    assert merge_schemas(column(MERCATOR), column("geometry(SRID:0)")) == column(MERCATOR)
    with pytest.raises(SchemaMismatchError, match="in the table and"):
        merge_schemas(column("geometry(SRID:0)"), column(MERCATOR))


# --------------------------------------------------------------------------------------------- WKB


@pytest.mark.parametrize(
    "value",
    [
        point(1, 2),
        point(1, 2, order=">"),
        point(1, 2, 3, kind=1001),
        point(1, 2, 3, kind=2001),
        point(1, 2, 3, 4, kind=3001, order=">"),
        point(float("nan"), float("nan")),
        line(),
        line((0, 0), (1, 1)),
        bytes.fromhex("0107000000") + bytes(4),
    ],
)
def test_well_known_binary_is_taken(value: bytes) -> None:
    check_wkb(pa.array([None, value], pa.binary()), "g")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"", "too short for a header"),
        (b"\x01\x01\x00", "too short for a header"),
        (b"\x02" + point(1, 2)[1:], "neither byte order"),
        (point(1, 2)[:-1], "length is wrong"),
        (point(1, 2) + b"\x00", "length is wrong"),
        (point(1, 2, kind=1001), "length is wrong"),
        (bytes.fromhex("0102000000"), "length is wrong"),
        (bytes.fromhex("0100000000") + bytes(4), "no shape of the kind 0"),
        (bytes.fromhex("0108000000") + bytes(4), "no shape of the kind 8"),
        (bytes.fromhex("01a10f0000") + bytes(40), "no shape of the kind 4001"),
        (bytes.fromhex("0101000020e6100000") + bytes(16), "EWKB"),
        (b"POINT (1 2)", "neither byte order"),
    ],
)
def test_what_is_no_well_known_binary_is_refused(value: bytes, why: str) -> None:
    with pytest.raises(InvariantViolationError, match=rf"1 of 3 values .*{why}"):
        check_wkb(pa.array([point(1, 2), None, value], pa.binary()), "g")


def test_where_a_struct_is_null_nobody_looks_at_its_shape() -> None:
    inner = pa.array([b"?", point(1, 2)], pa.binary())
    structs = pa.StructArray.from_arrays([inner], ["g"], mask=pa.array([True, False]))
    schema = t.StructType((t.StructField("s", column(MERCATOR)),))
    taken = cast_to_schema(pa.table({"s": structs}), schema)
    assert taken.to_pydict() == {"s": [None, {"g": point(1, 2)}]}


KINDS = st.integers(1, 7).flatmap(lambda k: st.sampled_from([k + 1000 * d for d in range(4)]))


@given(KINDS, st.sampled_from("<>"), st.data())
def test_a_header_is_known_exactly_if_its_kind_and_its_order_are(
    kind: int, order: str, data: st.DataObject
) -> None:
    coordinates = (2, 3, 3, 4)[kind // 1000]
    whole = point(*range(coordinates), kind=kind, order=order)
    check_wkb(pa.array([whole], pa.binary()), "g")
    place = data.draw(st.integers(0, 4))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != whole[place]))
    changed = whole[:place] + bytes([other]) + whole[place + 1 :]
    code = int.from_bytes(changed[1:5], "little" if changed[0] == 1 else "big")
    length = 5 + 8 * coordinates
    right = changed[0] < 2 and 0 < code < 4000 and 1 <= code % 1000 <= 7
    if right and code % 1000 == 1:
        right = length == 5 + 8 * (2, 3, 3, 4)[code // 1000]
    if right:
        check_wkb(pa.array([changed], pa.binary()), "g")
    else:
        with pytest.raises(InvariantViolationError):
            check_wkb(pa.array([changed], pa.binary()), "g")
