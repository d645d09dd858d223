"""Tables that pyiceberg wrote become Delta tables in place: rows, ids, partitions, statistics."""

from __future__ import annotations

import gzip
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC as NONE
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

import adelta
import adelta.sync
from adelta.cli.main import main
from adelta.errors import (
    InvalidOptionError,
    InvalidPropertyError,
    InvalidTableError,
    MissingDataFileError,
    SchemaMismatchError,
    TableNotFoundError,
    UnsupportedFeatureError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table import Table as IcebergTable

COLUMNS = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "day", DateType(), doc="when"),
    NestedField(3, "name", StringType()),
    NestedField(4, "x", DoubleType()),
    NestedField(5, "amount", DecimalType(9, 2)),
    NestedField(6, "local", TimestampType()),
    NestedField(7, "at", TimestamptzType()),
    NestedField(8, "raw", BinaryType()),
    NestedField(9, "code", FixedType(4)),
    NestedField(10, "small", IntegerType()),
    NestedField(11, "ratio", FloatType()),
    NestedField(12, "gone", StringType()),
    NestedField(13, "inside", StructType(NestedField(14, "p", IntegerType()))),
    NestedField(15, "list", ListType(16, IntegerType(), element_required=False)),
    NestedField(17, "map", MapType(18, StringType(), 19, LongType(), value_required=False)),
)
NOON = datetime(2024, 2, 29, 12, 0, 0, 123456)


def row(number: int, **other: Any) -> dict[str, Any]:
    return {
        "id": number,
        "day": date(2024, 1, 1 + number % 2),
        "name": "né" * 20 + str(number),
        "x": float(number),
        "amount": Decimal(number) / 4,
        "local": NOON,
        "at": NOON.replace(tzinfo=UTC),
        "raw": b"\x00\xff",
        "code": b"abcd",
        "small": number,
        "ratio": 0.5,
        "gone": "gone",
        "inside": {"p": number},
        "list": [number, None],
        "map": [("a", number)],
        **other,
    }


class Warehouse:
    """Tables of pyiceberg's in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.catalog = InMemoryCatalog("test", warehouse=folder.as_uri())
        self.catalog.create_namespace("db")

    def table(self, schema: Schema = COLUMNS, spec: PartitionSpec = NONE) -> IcebergTable:
        return self.catalog.create_table("db.t", schema, partition_spec=spec)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "lake")


def append(table: IcebergTable, *rows: Mapping[str, Any]) -> None:
    table.append(pa.Table.from_pylist([*map(dict, rows)], schema=table.schema().as_arrow()))


def where(table: IcebergTable) -> tuple[str, str]:
    """Where it is, and its metadata below that."""
    root = table.location()
    return root.removeprefix("file://"), table.metadata_location.removeprefix(f"{root}/")


def converted(table: IcebergTable, **options: Any) -> str:
    path, metadata = where(table)
    adelta.sync.convert_iceberg(path, metadata=metadata, **options)
    return path


def contents(path: str) -> list[dict[str, Any]]:
    with adelta.sync.open_table(path) as table:
        return sorted(table.snapshot().scan().to_arrow().to_pylist(), key=lambda r: r["id"])


def log(path: str) -> list[dict[str, Any]]:
    lines = Path(path, "_delta_log/00000000000000000000.json").read_bytes().splitlines()
    return [orjson.loads(line) for line in lines]


def metadata_of(path: str) -> dict[str, Any]:
    return next(action["metaData"] for action in log(path) if "metaData" in action)


def adds(path: str) -> list[dict[str, Any]]:
    return [action["add"] for action in log(path) if "add" in action]


BY_DAY = PartitionSpec(
    PartitionField(2, 1000, IdentityTransform(), "day"),
    PartitionField(1, 1001, BucketTransform(4), "bucket"),
)


def test_rows_partitions_and_statistics_are_icebergs(warehouse: Warehouse) -> None:
    table = warehouse.table(spec=BY_DAY)
    append(table, *map(row, range(4)), row(4, day=None, name=None))
    expected = table.scan().to_arrow().to_pylist()
    path = converted(table)
    assert contents(path) == sorted(expected, key=lambda r: r["id"])
    assert metadata_of(path)["partitionColumns"] == ["day"]
    days = {add["partitionValues"]["day"] for add in adds(path)}
    assert days == {"2024-01-01", "2024-01-02", None}
    found = [orjson.loads(add["stats"]) for add in adds(path)]
    by_id = {stats["minValues"]["id"]: stats for stats in found}
    assert by_id[3]["minValues"]["amount"] == 0.75
    assert by_id[3]["maxValues"]["at"] == "2024-02-29T12:00:00.123Z"
    assert by_id[4]["nullCount"]["name"] == 1
    assert "x" not in by_id[3]["maxValues"]  # nobody says that there is no NaN
    with adelta.sync.open_table(path) as delta:
        snapshot = delta.snapshot()
        assert snapshot.scan(where="id = 3").files().num_rows == 1
        assert (snapshot.schema.field("day").metadata or {})[b"comment"] == b"when"
        assert not snapshot.schema.field("id").nullable
        assert not adelta.sync.fsck(delta, deep=True).problems


def test_what_was_renamed_dropped_added_or_widened_in_iceberg_is_so(warehouse: Warehouse) -> None:
    table = warehouse.table()
    append(table, row(1))
    with table.update_schema() as change:
        change.rename_column("name", "title")
        change.rename_column("inside.p", "q")
        change.delete_column("gone")
        change.add_column("gone", LongType())
        change.update_column("small", LongType())
        change.update_column("ratio", DoubleType())
        change.update_column("amount", DecimalType(18, 2))
    later = {key: value for key, value in row(2).items() if key not in ("name", "inside")}
    append(table, later | {"title": "b", "inside": {"q": 7}, "gone": 9, "small": 1 << 40})
    expected = sorted(table.scan().to_arrow().to_pylist(), key=lambda r: r["id"])
    path = converted(table)
    assert contents(path) == expected
    configuration = metadata_of(path)["configuration"]
    assert configuration["delta.columnMapping.mode"] == "id"
    assert int(configuration["delta.columnMapping.maxColumnId"]) >= 20  # that of the new `gone`
    fields = {f["name"]: f for f in orjson.loads(metadata_of(path)["schemaString"])["fields"]}
    assert fields["small"]["metadata"]["delta.typeChanges"] == [
        {"fromType": "integer", "toType": "long"}
    ]
    first = next(a for a in adds(path) if orjson.loads(a["stats"])["minValues"]["id"] == 1)
    assert orjson.loads(first["stats"])["minValues"]["title"] == ("né" * 20)[:16]
    with adelta.sync.open_table(path) as delta:  # and it goes on as any table
        adelta.sync.add_columns(delta, pa.schema([("fresh", pa.string())]))
        adelta.sync.delete(delta, "id = 1")
        [left] = contents(path)
        assert left == expected[1] | {"fresh": None}


def test_a_column_is_a_partition_column_where_all_files_have_one_value_of_it(
    warehouse: Warehouse,
) -> None:
    table = warehouse.table(spec=BY_DAY)
    append(table, row(1))
    with table.update_spec() as change:
        change.remove_field("day")
        change.add_field("small", IdentityTransform(), "small_part")
    append(table, row(2), row(3, day=None))
    path = converted(table)
    assert metadata_of(path)["partitionColumns"] == []
    assert [r["day"] for r in contents(path)] == [date(2024, 1, 2), date(2024, 1, 1), None]


def test_an_empty_text_is_told_from_null(warehouse: Warehouse) -> None:
    spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "name"))
    table = warehouse.table(spec=spec)
    append(table, row(1, name=""), row(2, name=None))
    path = converted(table)
    assert metadata_of(path)["partitionColumns"] == []
    assert [r["name"] for r in contents(path)] == ["", None]


@pytest.mark.parametrize(
    ("values", "partitioned"),
    [([b"a", None], ["raw"]), ([b"", None], []), ([b"\x00\xff", b"a"], [])],
)
def test_bytes_that_a_log_cannot_hold_are_read_from_the_files(
    warehouse: Warehouse, values: list[bytes | None], partitioned: list[str]
) -> None:
    spec = PartitionSpec(PartitionField(8, 1000, IdentityTransform(), "raw"))
    table = warehouse.table(spec=spec)
    append(table, *(row(number, raw=value) for number, value in enumerate(values)))
    path = converted(table)
    assert metadata_of(path)["partitionColumns"] == partitioned
    assert [r["raw"] for r in contents(path)] == values


def test_other_engines_read_what_they_can(warehouse: Warehouse) -> None:
    simple = Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType()))
    table = warehouse.table(simple)
    append(table, {"id": 1, "name": "a"})
    path = converted(table)
    assert DeltaTable(path).version() == 0
    assert DeltaTable(path).metadata().configuration["delta.columnMapping.mode"] == "id"


def test_a_table_without_rows(warehouse: Warehouse) -> None:
    path = converted(warehouse.table(spec=BY_DAY))
    assert contents(path) == []
    assert metadata_of(path)["partitionColumns"] == ["day"]


def test_a_table_without_a_catalog_says_its_metadata_itself(warehouse: Warehouse) -> None:
    table = warehouse.table()
    append(table, row(1))
    path, metadata = where(table)
    with pytest.raises(InvalidOptionError, match="its catalog knows"):
        adelta.sync.convert_iceberg(path)
    Path(path, metadata).rename(Path(path, "metadata/v7.metadata.json"))
    Path(path, "metadata/version-hint.text").write_text("7")
    assert main(["convert", path, "--iceberg", "--dry-run"]) == 0
    dry = adelta.sync.convert_iceberg(path, dry_run=True)
    assert (dry.version, dry.num_converted_files) == (None, 1)
    assert not Path(path, "_delta_log").exists()
    adelta.sync.sql(f"CONVERT TO DELTA iceberg.`{path}`")
    assert len(contents(path)) == 1
    assert adelta.sync.convert_iceberg(path).version is None  # it is one already


def test_rows_that_are_deleted_by_files_of_their_own_are_refused(warehouse: Warehouse) -> None:
    from pyiceberg.manifest import ManifestContent

    from adelta.operations.iceberg.metadata import _refuse_deletes

    class Manifest:
        content = ManifestContent.DELETES
        added_files_count, existing_files_count = 1, 0

    with pytest.raises(UnsupportedFeatureError, match="merge on read"):
        _refuse_deletes("t", [Manifest()])  # pyiceberg writes none


def test_what_delta_has_not_is_refused_by_name(warehouse: Warehouse) -> None:
    table = warehouse.table(
        Schema(NestedField(1, "id", LongType()), NestedField(2, "t", TimeType()))
    )
    path, metadata = where(table)
    with pytest.raises(SchemaMismatchError, match="'t' has Iceberg's type time"):
        adelta.sync.convert_iceberg(path, metadata=metadata)
    with pytest.raises(InvalidPropertyError, match="ids"):
        adelta.sync.convert_iceberg(
            path, metadata=metadata, properties={"delta.columnMapping.mode": "name"}
        )
    assert not Path(path, "_delta_log").exists()


def test_damaged_tables_are_refused(warehouse: Warehouse, tmp_path: Path) -> None:
    table = warehouse.table()
    append(table, row(1))
    path, metadata = where(table)
    with pytest.raises(TableNotFoundError, match="no Iceberg metadata"):
        adelta.sync.convert_iceberg(path, metadata="metadata/v9.metadata.json")
    text = Path(path, metadata).read_text()
    Path(path, "metadata/cut.metadata.json").write_text(text[:100])
    with pytest.raises(InvalidTableError, match="damaged"):
        adelta.sync.convert_iceberg(path, metadata="metadata/cut.metadata.json")
    elsewhere = text.replace(table.current_snapshot().manifest_list, "file:///etc/passwd")  # type: ignore[union-attr]
    Path(path, "metadata/evil.metadata.json").write_text(elsewhere)
    with pytest.raises(InvalidTableError, match="outside of the table"):
        adelta.sync.convert_iceberg(path, metadata="metadata/evil.metadata.json")
    up = text.replace(
        str(table.current_snapshot().manifest_list),  # type: ignore[union-attr]
        f"{table.location()}/metadata/../../../x",
    )
    Path(path, "metadata/up.metadata.json").write_text(up)
    with pytest.raises(InvalidTableError, match="outside of the table"):
        adelta.sync.convert_iceberg(path, metadata="metadata/up.metadata.json")
    [file] = Path(path, "data").rglob("*.parquet")
    file.rename(tmp_path / "away")
    with pytest.raises(MissingDataFileError, match="lacks 1 of the 1 files"):
        adelta.sync.convert_iceberg(path, metadata=metadata)
    assert not Path(path, "_delta_log").exists()


def changed(table: IcebergTable, **members: Any) -> tuple[str, str]:
    """Where the table is, and a metadata file with other members."""
    path, metadata = where(table)
    found = orjson.loads(Path(path, metadata).read_bytes()) | members
    Path(path, "metadata/other.metadata.json").write_bytes(orjson.dumps(found))
    return path, "metadata/other.metadata.json"


def test_metadata_that_contradict_each_other_are_refused(warehouse: Warehouse) -> None:
    table = warehouse.table(spec=BY_DAY)
    append(table, row(1))
    (spec,) = orjson.loads(Path(*where(table)).read_bytes())["partition-specs"]
    more = {"source-id": 10, "field-id": 1002, "name": "more", "transform": "identity"}
    others: list[dict[str, Any]] = [
        {"current-snapshot-id": 12345},
        {"partition-specs": [spec | {"spec-id": 5}], "default-spec-id": 5},
        {"partition-specs": [spec | {"fields": [more, *spec["fields"]]}]},
    ]
    for other in others:
        path, metadata = changed(table, **other)
        with pytest.raises(InvalidTableError, match="is damaged"):
            adelta.sync.convert_iceberg(path, metadata=metadata)
    path, metadata = where(table)
    for manifest in Path(path, "metadata").glob("*-m0.avro"):
        manifest.unlink()
    with pytest.raises(InvalidTableError, match=r"lacks metadata/.*\.avro"):
        adelta.sync.convert_iceberg(path, metadata=metadata)
    assert not Path(path, "_delta_log").exists()


def test_metadata_may_be_compressed(warehouse: Warehouse) -> None:
    table = warehouse.table()
    append(table, row(1))
    path, metadata = where(table)
    compressed = gzip.compress(Path(path, metadata).read_bytes())
    Path(path, "metadata/v7.gz.metadata.json").write_bytes(compressed)
    Path(path, "metadata/version-hint.text").write_text("7")
    adelta.sync.convert_iceberg(path)
    assert len(contents(path)) == 1


def test_a_table_that_was_moved(warehouse: Warehouse, tmp_path: Path) -> None:
    table = warehouse.table()
    append(table, row(1))
    path, metadata = where(table)
    Path(path).rename(tmp_path / "elsewhere")
    adelta.sync.convert_iceberg(tmp_path / "elsewhere", metadata=metadata)
    assert len(contents(str(tmp_path / "elsewhere"))) == 1


def imported(table: IcebergTable, *names: str) -> IcebergTable:
    """The table with files that others have written, which bear no field ids."""
    folder = Path(where(table)[0], "data")
    folder.mkdir(exist_ok=True)
    for name in names:
        pq.write_table(pa.table({"id": pa.array([7], pa.int64()), "name": ["x"]}), folder / name)
    table.add_files([f"{folder.as_uri()}/{name}" for name in names])
    return table


TWO = Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType()))


def test_files_without_field_ids_are_refused(warehouse: Warehouse) -> None:
    table = warehouse.table(TWO)
    table.append(pa.table({"id": pa.array([1], pa.int64()), "name": ["a"]}))
    imported(table, "one.parquet", "other.parquet")
    for mapped in (True, False):
        if not mapped:
            with table.transaction() as tx:
                tx.remove_properties("schema.name-mapping.default")
        path, metadata = where(table)
        with pytest.raises(UnsupportedFeatureError, match=r"2 of 3 files.*one\.parquet.*field ids"):
            adelta.sync.convert_iceberg(path, metadata=metadata, dry_run=True)


def test_a_name_mapping_that_no_file_needs_is_passed_over(warehouse: Warehouse) -> None:
    table = warehouse.table(TWO)
    table.append(pa.table({"id": pa.array([1], pa.int64()), "name": ["a"]}))
    with table.transaction() as tx:
        tx.set_properties({"schema.name-mapping.default": "[]"})
    assert contents(converted(table)) == [{"id": 1, "name": "a"}]


def test_a_file_that_the_manifests_name_twice_is_told(warehouse: Warehouse) -> None:
    table = warehouse.table(TWO)
    table.append(pa.table({"id": pa.array([1], pa.int64()), "name": ["a"]}))
    data_file = next(iter(table.scan().plan_files())).file
    with table.transaction() as tx, tx.update_snapshot().fast_append() as again:
        again.append_data_file(data_file)
    path, metadata = where(table)
    with pytest.raises(InvalidTableError, match=r"name data/.* 2 times"):
        adelta.sync.convert_iceberg(path, metadata=metadata)
