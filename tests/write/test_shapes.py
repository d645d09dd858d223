"""Tables with columns of shapes, `geometry` and `geography` (B2-31)."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import adelta
from adelta.errors import InvalidUseError, InvariantViolationError, SchemaMismatchError
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.schema import types as t
from adelta.kernel.schema.arrow import to_arrow_schema
from adelta.kernel.schema.type_text import parse_column
from adelta.storage.memory import MemoryStore
from adelta.write.row_rules import RowRules
from tests.operations.altered import files_of
from tests.support.data_tables import described, opened
from tests.support.shapes import WkbType, collection, line, marked, point, polygon

if TYPE_CHECKING:
    from pathlib import Path

    from adelta.table import Table

FLAT = t.PrimitiveType("geometry(EPSG:3857)")
GLOBE = t.PrimitiveType("geography(OGC:CRS84, SPHERICAL)")
SCHEMA = t.StructType(
    (t.StructField("id", t.LONG), t.StructField("g", FLAT), t.StructField("w", GLOBE))
)
ROWS = pa.table(
    {
        "id": [1, 2, 3],
        "g": [point(1, 2), None, line((0, 0), (3, -4))],
        "w": [point(13.4, 52.5), point(-180, 90), None],
    }
)
PROTOCOL = Protocol(3, 7, ("geospatial",), ("appendOnly", "geospatial", "invariants"))


async def new_table(uri: str | None = None, schema: t.StructType = SCHEMA, **more: Any) -> Table:
    return await adelta.create_table(uri or f"memory://{uuid.uuid4()}/t", schema, **more)


async def rows_of(table: Table, **scan: Any) -> list[dict[str, Any]]:
    rows = await (await table.snapshot()).scan(**scan).to_arrow()
    return sorted(rows.to_pylist(), key=lambda row: row.get("id") or 0)


def data_file(root: Path) -> Path:
    (found,) = root.glob("*.parquet")
    return found


def everything(root: Path) -> set[Path]:
    return set(root.rglob("*"))


# ----------------------------------------------------------------------------------------- feature


async def test_a_column_of_shapes_brings_its_feature() -> None:
    table = await new_table()
    assert (await table.snapshot()).protocol == PROTOCOL
    for name in ("array<geometry>", "map<string, geometry>", "struct<g: geometry>"):
        plain = await new_table(schema=t.StructType((t.StructField("id", t.LONG),)))
        assert (await plain.snapshot()).protocol.reader_features is None
        await adelta.add_columns(plain, t.StructType((parse_column(f"c {name}"),)))
        assert (await plain.snapshot()).protocol == PROTOCOL


async def test_rows_that_are_marked_make_a_table_of_shapes() -> None:
    uri = f"memory://{uuid.uuid4()}/t"
    schema = pa.schema([marked("g", crs="EPSG:3857"), pa.field("w", WkbType(edges="spherical"))])
    world = pa.ExtensionArray.from_storage(schema.field("w").type, pa.array([point(3, 4)]))
    rows = pa.table([pa.array([point(1, 2)]), world], schema=schema)
    await adelta.write_table(uri, rows)
    async with adelta.open_table(uri) as table:
        snapshot = await table.snapshot()
        assert snapshot.protocol == PROTOCOL
        assert [str(f.type) for f in snapshot.delta_schema] == [FLAT.name, GLOBE.name]
        read = await snapshot.scan().to_arrow()
        assert read.to_pydict() == {"g": [point(1, 2)], "w": [point(3, 4)]}
        copy = f"memory://{uuid.uuid4()}/t"
        await adelta.write_table(copy, read)
        async with adelta.open_table(copy) as other:
            assert (await other.snapshot()).delta_schema == snapshot.delta_schema


async def test_a_table_under_the_previews_name_keeps_it() -> None:
    plain = t.StructType((t.StructField("id", t.LONG),))
    commit = described(plain, features=("geospatial-dev",))
    async with await opened(MemoryStore(), commit) as table:
        before = (await table.snapshot()).protocol
        assert before.reader_features == ("geospatial-dev",)
        await adelta.add_columns(table, t.StructType(SCHEMA.fields[1:]))
        await adelta.write_table(table, ROWS)
        assert await rows_of(table) == ROWS.to_pylist()
        assert (await table.snapshot()).protocol == before


async def test_the_feature_can_be_dropped_once_no_column_holds_shapes() -> None:
    schema = t.StructType((*SCHEMA.fields, t.StructField("l", t.ArrayType(FLAT))))
    table = await new_table(schema=schema, properties={"delta.columnMapping.mode": "name"})
    with pytest.raises(InvalidUseError, match=r"its columns of shapes \(g, w, l\); drop them"):
        await adelta.drop_feature(table, "geospatial")
    await adelta.drop_columns(table, ["g", "w", "l"])
    await adelta.drop_feature(table, "geospatial")
    assert "geospatial" not in ((await table.snapshot()).protocol.writer_features or ())


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"partition_by": ["g"]}, "cannot be partitioned"),
        ({"cluster_by": ["w"]}, "cannot be clustered"),
        ({"properties": {"delta.enableIcebergCompatV2": "true"}}, "IcebergCompatV2 does not allow"),
    ],
)
async def test_shapes_order_nothing_and_are_unknown_to_iceberg(
    more: dict[str, Any], message: str
) -> None:
    with pytest.raises(SchemaMismatchError, match=message):
        await new_table(**more)


async def test_a_system_per_row_and_default_values_are_refused() -> None:
    anywhere = t.StructField("g", t.PrimitiveType("geometry(SRID:ANY)"))
    with pytest.raises(SchemaMismatchError, match="one coordinate reference system"):
        await new_table(schema=t.StructType((t.StructField("l", t.ArrayType(anywhere.type)),)))
    table = await new_table(schema=t.StructType((t.StructField("id", t.LONG),)))
    with pytest.raises(SchemaMismatchError, match="one coordinate reference system"):
        await adelta.add_columns(table, t.StructType((anywhere,)))
    for kind in (FLAT, t.StructType((t.StructField("inner", GLOBE),))):
        field = t.StructField("g", kind, metadata={"CURRENT_DEFAULT": "NULL"})
        with pytest.raises(SchemaMismatchError, match="'g' holds shapes, which cannot have a def"):
            await new_table(schema=t.StructType((t.StructField("id", t.LONG), field)))


# -------------------------------------------------------------------------------------------- rows


async def test_shapes_are_written_at_any_depth_with_the_types_that_parquet_has(
    tmp_path: Path,
) -> None:
    inner = t.StructType((t.StructField("g", FLAT),))
    karney, unknown = (
        t.PrimitiveType(name) for name in ("geography(OGC:CRS84, KARNEY)", "geometry(SRID:0)")
    )
    schema = t.StructType(
        (
            *SCHEMA.fields,
            t.StructField("l", t.ArrayType(FLAT)),
            t.StructField("m", t.MapType(t.STRING, GLOBE)),
            t.StructField("s", inner),
            t.StructField("k", karney),
            t.StructField("u", unknown),
        )
    )
    rows = [
        {**row, "l": [point(1, 1), None], "m": [("a", point(2, 2))], "s": {"g": point(3, 3)}}
        | {"k": point(4, 4), "u": point(5, 5)}
        for row in ROWS.to_pylist()
    ] + [{"id": 4, "g": None, "w": None, "l": None, "m": None, "s": None, "k": None, "u": None}]
    table = await new_table(str(tmp_path), schema)
    target = (await table.snapshot()).schema
    await adelta.write_table(table, pa.Table.from_pylist(rows, target))
    assert await rows_of(table) == rows

    footer = pq.read_metadata(data_file(tmp_path))
    kinds = [str(footer.schema.column(i).logical_type) for i in range(footer.num_columns)]
    plane, globe = "Geometry(crs=EPSG:3857)", "Geography(crs=, algorithm=spherical)"
    assert kinds == [
        "None",
        plane,
        globe,
        plane,
        "String",
        globe,
        plane,
        "None",
        "Geometry(crs=SRID:0)",
    ]
    box = footer.row_group(0).column(1).geo_statistics
    assert (box.xmin, box.xmax, box.ymin, box.ymax) == (0, 3, -4, 2)


@pytest.mark.parametrize("mode", ["none", "name", "id"])
async def test_shapes_are_counted_where_they_are_null_and_have_no_other_statistics(
    mode: str, tmp_path: Path
) -> None:
    table = await new_table(str(tmp_path), properties={"delta.columnMapping.mode": mode})
    await adelta.write_table(table, ROWS)
    key, flat, globe = [
        f.metadata.get("delta.columnMapping.physicalName", f.name) for f in await fields(table)
    ]
    ((action, _),) = await files_of(table)
    assert orjson.loads(action["stats"]) == {
        "numRecords": 3,
        "minValues": {key: 1},
        "maxValues": {key: 3},
        "nullCount": {key: 0, flat: 1, globe: 1},
    }
    assert await rows_of(table) == ROWS.to_pylist()
    await adelta.checkpoint(table)
    async with adelta.open_table(str(tmp_path)) as again:
        assert await rows_of(again, where="g is not null") == [
            row for row in ROWS.to_pylist() if row["g"] is not None
        ]


async def fields(table: Table) -> tuple[t.StructField, ...]:
    return (await table.snapshot()).delta_schema.fields


async def test_what_is_no_well_known_binary_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    table = await new_table(str(tmp_path))
    before = everything(tmp_path)
    for bad in (b"POINT(1 2)", point(1, 2)[:-1], bytes.fromhex("0101000020e6100000") + bytes(16)):
        with pytest.raises(InvariantViolationError, match="'g' holds shapes as well-known binary"):
            await adelta.write_table(table, pa.table({"id": [1], "g": [bad]}))
    rows = pa.table([pa.array([point(1, 2)])], schema=pa.schema([marked("g", crs="OGC:CRS84")]))
    with pytest.raises(SchemaMismatchError, match="EPSG:3857"):
        await adelta.write_table(table, rows)
    with pytest.raises(SchemaMismatchError, match="no implicit conversion from string"):
        await adelta.write_table(table, pa.table({"g": ["POINT(1 2)"]}))
    assert everything(tmp_path) == before
    assert (await table.snapshot()).version == 0


@pytest.mark.parametrize("name", ["g", "w", "l", "m", "s"])
async def test_a_shape_that_ends_too_early_is_refused_wherever_it_is(
    name: str, tmp_path: Path
) -> None:
    columns = ("g geometry", "w geography", "l array<geometry>", "m map<int, geography>")
    schema = tuple(map(parse_column, (*columns, "s struct<g: geometry>")))
    table = await new_table(str(tmp_path), t.StructType(schema))
    before = everything(tmp_path)
    whole = polygon((0, 0), (1, 0), (1, 1), (0, 0))

    def row(shape: bytes) -> dict[str, Any]:
        nested = {"g": shape, "w": shape, "l": [whole, shape], "m": [(1, shape)], "s": {"g": shape}}
        return {name: nested[name]}

    target = (await table.snapshot()).schema.field(name)
    for bad in (whole[:-1], whole + b"x", collection(whole, whole[:-8]), line((1, 1))[:-3]):
        rows = pa.Table.from_pylist([row(whole)] * 9 + [row(bad), row(whole)], pa.schema([target]))
        with pytest.raises(InvariantViolationError, match=f"'{name}' .* damaged behind its header"):
            await adelta.write_table(table, rows)
    assert everything(tmp_path) == before
    await adelta.write_table(table, pa.Table.from_pylist([row(whole)] * 9, pa.schema([target])))
    assert await (await table.snapshot()).scan(where=f"{name} IS NOT NULL").count() == 9


@pytest.mark.parametrize("vectors", ["true", "false"])
async def test_rows_with_shapes_are_deleted_updated_and_replaced(vectors: str) -> None:
    table = await new_table(properties={"delta.enableDeletionVectors": vectors})
    await adelta.write_table(table, ROWS)
    await adelta.delete(table, "g is null")
    await adelta.update(table, {"g": f"X'{point(7, 8).hex()}'", "w": "NULL"}, "id = 3")
    moved = [ROWS.to_pylist()[0], {"id": 3, "g": point(7, 8), "w": None}]
    assert await rows_of(table) == moved
    with pytest.raises(InvariantViolationError, match="too short"):
        await adelta.update(table, {"g": "X'00'"}, "id = 3")
    new = pa.table({"id": [3], "g": [None], "w": [point(1, 1)]})
    await adelta.write_table(table, new, mode="overwrite", replace_where="id = 3")
    assert await rows_of(table) == [moved[0], *new.to_pylist()]
    await adelta.write_table(table, ROWS, mode="overwrite")
    assert await rows_of(table) == ROWS.to_pylist()


async def test_changes_of_shapes_are_told() -> None:
    table = await new_table(properties={"delta.enableChangeDataFeed": "true"})
    await adelta.write_table(table, ROWS)
    await adelta.update(table, {"w": f"X'{point(5, 6).hex()}'"}, "id = 3")
    told = [row async for batch in adelta.changes(table, since=1) for row in batch.to_pylist()]
    shapes = [(row["_change_type"], row["id"], row["w"]) for row in told]
    assert sorted(shapes, key=str) == sorted(
        [
            *(("insert", row["id"], row["w"]) for row in ROWS.to_pylist()),
            ("update_preimage", 3, None),
            ("update_postimage", 3, point(5, 6)),
        ],
        key=str,
    )


async def test_constraints_ask_whether_there_is_a_shape() -> None:
    table = await new_table()
    await adelta.add_constraint(table, "placed", "g IS NOT NULL OR w IS NOT NULL")
    await adelta.write_table(table, ROWS)
    with pytest.raises(InvariantViolationError, match="placed"):
        await adelta.write_table(table, pa.table({"id": [4]}))


async def test_columns_of_shapes_come_with_rows_where_schemas_are_merged() -> None:
    table = await new_table(schema=t.StructType((t.StructField("id", t.LONG),)))
    await adelta.write_table(table, pa.table({"id": [0]}))
    shapes = pa.table(
        [pa.array([1]), pa.array([point(1, 2)])],
        schema=pa.schema([pa.field("id", pa.int64()), marked("g", crs="EPSG:3857")]),
    )
    await adelta.write_table(table, shapes, schema_mode="merge")
    assert (await table.snapshot()).protocol == PROTOCOL
    await adelta.write_table(table, pa.table({"id": [2], "g": [point(3, 4)]}), schema_mode="merge")
    wrong = shapes.cast(pa.schema([shapes.schema.field("id"), marked("g", crs="OGC:CRS84")]))
    with pytest.raises(SchemaMismatchError, match=r"geometry\(EPSG:3857\) in the table"):
        await adelta.write_table(table, wrong, schema_mode="merge")
    assert [row["g"] for row in await rows_of(table)] == [None, point(1, 2), point(3, 4)]
    overwritten = await adelta.write_table(table, wrong, mode="overwrite", schema_mode="overwrite")
    assert overwritten.version == 4
    assert str((await fields(table))[1].type) == "geometry(OGC:CRS84)"


COORDINATES = st.floats(width=64)
POINTS = st.builds(point, COORDINATES, COORDINATES, order=st.sampled_from("<>"))
ENDS = st.lists(st.tuples(COORDINATES, COORDINATES), max_size=5)
FLAT_SHAPES = POINTS | ENDS.map(lambda e: line(*e)) | ENDS.map(lambda e: polygon(*e))
SHAPES = st.none() | st.recursive(
    FLAT_SHAPES, lambda s: st.lists(s, max_size=3).map(lambda parts: collection(*parts))
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(st.tuples(SHAPES, SHAPES), min_size=1, max_size=8), max_size=3))
async def test_every_shape_comes_back_as_it_was_written(
    writes: list[list[tuple[bytes | None, bytes | None]]],
) -> None:
    table = await new_table()
    written: list[tuple[bytes | None, bytes | None]] = []
    for rows in writes:
        columns = [pa.array([r[i] for r in rows], pa.binary()) for i in (0, 1)]
        await adelta.write_table(table, pa.table(columns, names=["g", "w"]))
        written += rows
    read = await (await table.snapshot()).scan(columns=["g", "w"]).to_arrow()
    assert sorted(map(str, zip(*read.to_pydict().values(), strict=True))) == sorted(
        map(str, written)
    )
    nulls = await (await table.snapshot()).scan(where="g is null").count()
    assert nulls == sum(one is None for one, _ in written)


@settings(deadline=None)
@given(SHAPES.filter(lambda shape: shape is not None), st.data())
def test_a_shape_is_refused_if_and_only_if_its_length_is_wrong(
    shape: bytes, data: st.DataObject
) -> None:
    rules = RowRules.of(SCHEMA, {}, generates=False, has_defaults=False)
    target = to_arrow_schema(SCHEMA)
    name = data.draw(st.sampled_from(["g", "w"]))

    def apply(value: bytes) -> None:
        rules.apply(pa.record_batch([pa.array([None, value], pa.binary())], names=[name]), target)

    apply(shape)
    wrong = shape[: data.draw(st.integers(0, len(shape) - 1))]
    if data.draw(st.booleans()):
        wrong = shape + data.draw(st.binary(min_size=1, max_size=9))
    with pytest.raises(InvariantViolationError, match="well-known binary"):
        apply(wrong)
