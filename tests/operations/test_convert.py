"""A folder of Parquet files becomes a table (C7-14): what its log says, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import adelta
from adelta.errors import (
    InvalidOptionError,
    InvalidPropertyError,
    InvalidTableError,
    SchemaMismatchError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from adelta.operations import convert_files
from adelta.operations.convert_files import ConvertTask, StatisticsWanted
from adelta.parquet.arrow_reader import open_arrow_reader
from adelta.parquet.footer import known_shapes
from adelta.parquet.footer.known_shapes import forget_shapes
from adelta.storage.local import LocalStore
from adelta.storage.roots import StoreRoots
from adelta.storage.s3 import S3Store

if TYPE_CHECKING:
    from pathlib import Path

    from adelta.storage.object_store import SuffixRead
    from tests.support.s3_server import S3Location

ZONED = datetime(2024, 2, 29, 12, 30, 1, 123456, tzinfo=UTC)
ROWS = pa.table(
    {
        "id": pa.array([3, 1, None], pa.int64()),
        "text": ["é" * 40, "b", "\U0001f600" * 40],
        "price": pa.array([Decimal("1.50"), None, Decimal("-2.25")], pa.decimal128(9, 2)),
        "day": pa.array([date(2024, 1, 1), date(1969, 12, 31), None]),
        "at": pa.array([ZONED, None, ZONED], pa.timestamp("us", "UTC")),
        "inside": pa.array([{"x": 1, "y": "a"}, None, {"x": None, "y": "c"}]),
        "small": pa.array([1, 2, 3], pa.int8()),
        "empty": pa.array([None] * 3, pa.int32()),
        "flag": [True, False, None],
    }
)


def put(root: Path, path: str, rows: pa.Table, **options: Any) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, root / path, **options)


def adds(root: Path, version: int = 0) -> dict[str, dict[str, Any]]:
    lines = (root / f"_delta_log/{version:020}.json").read_bytes().splitlines()
    return {a["path"]: a for line in lines if (a := orjson.loads(line).get("add"))}


def stats_of(root: Path, path: str) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(adds(root)[path]["stats"])
    return found


async def test_statistics_of_footers_are_those_that_a_write_of_the_same_rows_states(
    tmp_path: Path,
) -> None:
    table = await adelta.write_table(str(tmp_path / "written"), ROWS)
    (written,) = adds(tmp_path / "written").values()
    put(tmp_path / "folder", "rows.parquet", ROWS, row_group_size=1)
    done = await adelta.convert(tmp_path / "folder")
    assert (done.version, done.num_converted_files) == (0, 1)
    assert orjson.loads(written["stats"]) == stats_of(tmp_path / "folder", "rows.parquet")
    (file,) = adds(tmp_path / "folder").values()
    status = (tmp_path / "folder/rows.parquet").stat()
    assert file["modificationTime"] == status.st_mtime_ns // 1_000_000
    assert (file["size"], file["dataChange"]) == (status.st_size, True)
    assert table is not None


async def test_footers_like_one_before_are_read_without_arrow_and_say_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def counted(path: str, source: Any) -> Any:
        asked.append(path)
        return open_arrow_reader(path, source)

    monkeypatch.setattr(convert_files, "open_arrow_reader", counted)
    for folder in ("learning", "asking"):
        for number in range(40):
            rows = pa.table(
                {
                    **{name: ROWS[name] for name in ROWS.column_names if name != "id"},
                    "id": [number * 1000, None, number],
                    "name": [f"a{number}", None, "b" * number],
                    "half": [number / 2, 0.0, float("nan") if number % 5 else 1.0],
                }
            )
            put(tmp_path / folder, f"{number:02}.parquet", rows, row_group_size=2 + number % 2)
        await adelta.convert(tmp_path / folder)
        monkeypatch.setattr(convert_files, "_LESSONS", 0)
    stated = [
        [(path, add["stats"]) for path, add in adds(tmp_path / folder).items()]
        for folder in ("learning", "asking")
    ]
    assert stated[0] == stated[1]
    assert len(asked) < 40 + 15
    assert len(set(asked)) == 40  # those of the second folder, which nothing was learnt of


def alike_rows(number: int, *, is_odd: bool) -> pa.Table:
    """Rows like the others' but for a value that tells nothing, which odd ones may have."""
    half = {3: float("nan"), 5: float("inf"), 6: -0.0}.get(number % 13 if is_odd else 0, number / 7)
    far = number * 30_000 if is_odd and number % 17 == 4 else 0
    return pa.table(
        {
            "100%": pa.array([None if is_odd and number % 11 == 7 else number * 7, None]),
            "half": [half, 0.0 if number % 2 else half],
            "day": pa.array([number, far], pa.int32()).cast(pa.date32()),
            "price": pa.array([Decimal(number) / 100, Decimal("-0.05")], pa.decimal128(9, 2)),
            "text": ["é" * (number % 50), "\x18\x01" * (number % 3) + '"'],
            "inside": [{"x": number, "%s": {"y": f"{number}"}}, {"x": None, "%s": None}],
            "at": pa.array([number * 999_999_937, 0], pa.timestamp("us", "UTC")),
            "empty": pa.array([None, None], pa.int32()),
        },
    )


@pytest.mark.parametrize("together", [1, 128])
async def test_many_files_that_are_alike_say_what_each_says_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    monkeypatch.setattr(convert_files, "_READ_TOGETHER", together)
    forget_shapes()
    for number in range(250):
        rows = alike_rows(number, is_odd=number > 150)
        put(tmp_path, f"{number:03}.parquet", rows, use_dictionary=number % 29 != 1)
    await adelta.convert(tmp_path)
    assert known_shapes._of_shapes[0].forms
    converted = adds(tmp_path)
    store = LocalStore(tmp_path)
    files = [m async for page in store.list("") for m in page if m.path.endswith(".parquet")]
    assert len(files) == len(converted) == 250
    for meta in files:
        alone = await ConvertTask((meta,), (), StatisticsWanted()).run(StoreRoots(store))
        (add,) = alone.adds
        assert converted[meta.path]["stats"] == add.stats, meta.path


async def test_a_file_that_was_written_again_since_it_was_listed_is_refused(
    tmp_path: Path,
) -> None:
    put(tmp_path, "a.parquet", ROWS)
    store = LocalStore(tmp_path)
    (meta,) = [m async for page in store.list("") for m in page]
    listed = replace(meta, size=meta.size - 1)
    with pytest.raises(InvalidTableError, match="written again"):
        await ConvertTask((listed,), (), StatisticsWanted()).run(StoreRoots(store))


async def test_bounds_that_a_footer_cannot_vouch_for_are_left_out(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "nan": [float("nan"), 1.5],
            "float": [0.0, 2.5],
            "list": pa.array([[1], None]),
            "full": pa.array([[1], [2]]),
            "unsigned": pa.array([1, 3_000_000_000], pa.uint32()),
            "huge": pa.array([1, 2**63 + 5], pa.uint64()),
            "far": pa.array([2**61, 1], pa.timestamp("us")),
        }
    )
    put(tmp_path, "a.parquet", rows)
    at = pa.table({"id": [1], "at": pa.array([ZONED], pa.timestamp("us"))})
    put(tmp_path, "b.parquet", at.drop_columns("at"))
    put(tmp_path, "old/c.parquet", at, use_deprecated_int96_timestamps=True)
    await adelta.convert(tmp_path)
    found = stats_of(tmp_path, "a.parquet")
    assert found["minValues"] == {"nan": 1.5, "float": -0.0, "unsigned": 1, "huge": 1}
    assert found["maxValues"] == {"unsigned": 3_000_000_000, "huge": 2**63 + 5}
    assert found["nullCount"] == {
        **dict.fromkeys(("nan", "float", "full", "unsigned", "huge", "far"), 0)
    }
    assert stats_of(tmp_path, "old/c.parquet")["minValues"] == {"id": 1}
    async with adelta.open_table(tmp_path) as table:
        snapshot = await table.snapshot()
        assert snapshot.schema.field("at").type == pa.timestamp("us", "UTC")
        scanned = await snapshot.scan(columns=["at"], where="at is not null").to_arrow()
    assert scanned.column("at").to_pylist() == [ZONED]


async def test_texts_of_writers_that_may_compare_them_otherwise_have_no_bounds(
    tmp_path: Path,
) -> None:
    rows = pa.table({"a": ["x"], "b": [1], "c": pa.array([Decimal("1.50")], pa.decimal128(30, 2))})
    put(tmp_path, "a.parquet", rows)
    path = tmp_path / "a.parquet"
    path.write_bytes(path.read_bytes().replace(b"parquet-cpp-arrow", b"parquet-odd-arrow"))
    await adelta.convert(tmp_path)
    found = stats_of(tmp_path, "a.parquet")
    assert (found["minValues"], found["maxValues"]) == ({"b": 1}, {"b": 1})


async def test_folders_give_typed_partition_values(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "name": ["a", "b"]})  # `name` is the folders' to say
    put(tmp_path, "day=2024-01-05/name=a%2Fb%3D c/x 1%.parquet", rows)
    put(tmp_path, "day=__HIVE_DEFAULT_PARTITION__/name=01/y.parquet", rows.select(["id"]))
    put(tmp_path, "_hidden/z.parquet", rows)
    put(tmp_path, "day=2024-01-05/name=q/_tmp/z.parquet", rows)
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "day=2024-01-05/.x.crc").write_bytes(b"1")
    schema = pa.schema([("day", pa.date32()), ("name", pa.string())])
    looked = await adelta.convert(tmp_path, partition_schema=schema, dry_run=True)
    assert (looked.version, looked.num_converted_files) == (None, 2)
    assert not (tmp_path / "_delta_log").exists()
    done = await adelta.convert(tmp_path, partition_schema="day date, name: string")
    assert done.partition_columns == ("day", "name")
    assert {p: a["partitionValues"] for p, a in adds(tmp_path).items()} == {
        "day=2024-01-05/name=a%252Fb%253D%20c/x%201%25.parquet": {
            "day": "2024-01-05",
            "name": "a/b= c",
        },
        "day=__HIVE_DEFAULT_PARTITION__/name=01/y.parquet": {"day": None, "name": "01"},
    }
    async with adelta.open_table(tmp_path) as table:
        snapshot = await table.snapshot()
        assert snapshot.schema.names == ["id", "name", "day"]
        ours = await snapshot.scan().to_arrow()
    assert sorted(ours.column("name").to_pylist()) == ["01", "01", "a/b= c", "a/b= c"]
    theirs = DeltaTable(str(tmp_path)).to_pyarrow_table().select(ours.schema.names)
    key = [("name", "ascending"), ("id", "ascending")]
    assert theirs.cast(ours.schema).sort_by(key) == ours.sort_by(key)


async def test_a_table_is_left_as_it_is_and_a_race_for_one_is_too(tmp_path: Path) -> None:
    put(tmp_path, "a.parquet", ROWS)
    first = await adelta.convert(tmp_path, name="n", description="d", properties={"a": "b"})
    again = await adelta.convert(tmp_path)
    assert (first.version, again.version, again.num_converted_files) == (0, None, 0)
    (entry,) = await adelta.history(tmp_path)
    assert entry.operation == "CONVERT"
    assert entry.operation_metrics == {"numConvertedFiles": "1"}
    assert entry.operation_parameters["collectStats"] == "true"
    detail = await adelta.detail(tmp_path)
    assert (detail.name, detail.description, detail.properties) == ("n", "d", {"a": "b"})


async def test_columns_are_those_of_all_files_and_every_one_is_nullable(tmp_path: Path) -> None:
    strict = pa.schema([pa.field("id", pa.int16(), nullable=False), ("only_a", pa.string())])
    put(tmp_path, "a.parquet", pa.table({"id": [1], "only_a": ["x"]}, schema=strict))
    nested = pa.table({"id": pa.array([70_000], pa.int32()), "s": [{"x": 1}], "v": pa.nulls(1)})
    put(tmp_path, "b.parquet", nested)
    put(tmp_path, "c.parquet", pa.table({"s": [{"y": [1.5]}], "v": ["text"]}))
    done = await adelta.convert(tmp_path)
    assert done.schema == pa.schema(
        [
            ("id", pa.int32()),
            ("only_a", pa.string()),
            (
                "s",
                pa.struct([("x", pa.int64()), ("y", pa.list_(pa.field("element", pa.float64())))]),
            ),
            ("v", pa.string()),
        ]
    )
    async with adelta.open_table(tmp_path) as table:
        rows = await (await table.snapshot()).scan(columns=["id", "v"]).to_arrow()
    assert sorted(rows.to_pylist(), key=str) == sorted(
        [{"id": 1, "v": None}, {"id": 70_000, "v": None}, {"id": None, "v": "text"}], key=str
    )


async def test_a_file_whose_writer_saw_no_value_of_a_nested_column_has_nulls_there(
    tmp_path: Path,
) -> None:
    nested = {"a": [[1]], "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))}
    put(tmp_path, "a.parquet", pa.table({**nested, "s": [{"x": 1}], "t": [{"y": [2]}]}))
    none = {name: pa.nulls(1) for name in "ams"}
    put(tmp_path, "b.parquet", pa.table({**none, "t": [{"y": None}]}))
    await adelta.convert(tmp_path)
    async with adelta.open_table(tmp_path) as table:
        rows = await (await table.snapshot()).scan().to_arrow()
    assert rows.to_pylist() == [
        {"a": [1], "m": [("k", 1)], "s": {"x": 1}, "t": {"y": [2]}},
        {"a": None, "m": None, "s": None, "t": {"y": None}},
    ]


async def test_structs_that_hold_the_same_fields_are_told_from_each_other(tmp_path: Path) -> None:
    for name in "abc":
        inner = pa.struct([pa.field("x", pa.int64(), nullable=name != "c")])
        field = pa.field(name, inner, nullable=name != "c")
        rows = pa.table([pa.array([{"x": 1}], inner)], schema=pa.schema([field]))
        put(tmp_path, f"{name}.parquet", rows)
    put(tmp_path, "d.parquet", pa.table({"x": pa.array([5])}))
    await adelta.convert(tmp_path)
    found = [stats_of(tmp_path, f"{name}.parquet")["minValues"] for name in "abcd"]
    assert found == [{"a": {"x": 1}}, {"b": {"x": 1}}, {"c": {"x": 1}}, {"x": 5}]


async def test_statistics_are_of_the_columns_that_the_whole_table_leads_with(
    tmp_path: Path,
) -> None:
    put(tmp_path, "a.parquet", pa.table({"a": [1], "b": [2]}))
    put(tmp_path, "b.parquet", pa.table({"b": [3], "c": [4]}))
    limited = {"delta.dataSkippingNumIndexedCols": "2"}
    await adelta.convert(tmp_path, properties=limited)
    assert stats_of(tmp_path, "b.parquet")["minValues"] == {"b": 3}
    put(tmp_path / "none", "a.parquet", pa.table({"a": [1]}))
    await adelta.convert(tmp_path / "none", collect_statistics=False)
    assert "stats" not in adds(tmp_path / "none")["a.parquet"]


async def test_names_in_files_stay_where_columns_are_mapped(tmp_path: Path) -> None:
    put(tmp_path, "p=1/a.parquet", pa.table({"a": [1], "s": [{"x": 2}]}))
    mapped = {"delta.columnMapping.mode": "name", "delta.enableRowTracking": "true"}
    await adelta.convert(tmp_path, partition_schema="p int", properties=mapped)
    await adelta.rename_column(tmp_path, "a", "renamed")
    async with adelta.open_table(tmp_path) as table:
        rows = await (await table.snapshot()).scan(with_row_ids=True).to_arrow()
    assert rows.select(["renamed", "s", "p"]).to_pylist() == [{"renamed": 1, "s": {"x": 2}, "p": 1}]


async def test_names_that_need_mapping_may_be_those_of_the_files(tmp_path: Path) -> None:
    rows = pa.table({"a b": [1], "c": [{"d,e": 2}]})
    put(tmp_path, "p q=1/a.parquet", rows)
    asked: dict[str, Any] = {"partition_schema": "`p q` INT"}
    with pytest.raises(SchemaMismatchError, match="needs column mapping"):
        await adelta.convert(tmp_path, **asked)
    mapped = {"delta.columnMapping.mode": "name"}
    await adelta.convert(tmp_path, **asked, properties=mapped)
    await adelta.write_table(tmp_path, pa.table({"a b": [2], "p q": pa.array([1], pa.int32())}))
    async with adelta.open_table(tmp_path) as table:
        found = await (await table.snapshot()).scan(where="`a b` > 0").to_arrow()
    assert sorted(found.to_pylist(), key=lambda row: row["a b"]) == [
        {"a b": 1, "c": {"d,e": 2}, "p q": 1},
        {"a b": 2, "c": None, "p q": 1},
    ]


@pytest.mark.parametrize(
    ("partitions", "message"),
    [
        (None, r"p=1/a\.parquet.*'p STRING'"),
        ("p int, q int", r"name the partition columns \(p\).*\(p, q\)"),
        ("q int", r"p=1/a\.parquet"),
    ],
)
async def test_other_folders_than_were_said_are_refused_by_a_file(
    tmp_path: Path, partitions: str | None, message: str
) -> None:
    put(tmp_path, "p=1/a.parquet", pa.table({"a": [1]}))
    with pytest.raises(InvalidOptionError, match=message):
        await adelta.convert(tmp_path, partition_schema=partitions)
    assert not (tmp_path / "_delta_log").exists()


async def test_what_is_no_folder_of_whole_parquet_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        await adelta.convert(tmp_path / "nothing")
    put(tmp_path / "one", "a.parquet", pa.table({"a": [1], "b": ["x"]}))
    put(tmp_path / "one", "b.parquet", pa.table({"a": ["1"]}))
    with pytest.raises(SchemaMismatchError, match=r"'a'.*long in a\.parquet.*string in b\.parquet"):
        await adelta.convert(tmp_path / "one")
    put(tmp_path / "one", "b.parquet", pa.table({"A": [1]}))
    with pytest.raises(SchemaMismatchError, match=r"spelt 'a' in a\.parquet and 'A' in b\.parquet"):
        await adelta.convert(tmp_path / "one")
    put(tmp_path / "two", "x/p=a/a.parquet", pa.table({"a": [1]}))
    with pytest.raises(SchemaMismatchError, match=r"p='a', which is not a int"):
        await adelta.convert(tmp_path / "two", partition_schema="p int")
    (tmp_path / "two/x.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InvalidTableError, match=r"x\.csv"):
        await adelta.convert(tmp_path / "two", partition_schema="p string")
    put(tmp_path / "ns", "a.parquet", pa.table({"t": pa.array([1], pa.timestamp("ns"))}))
    with pytest.raises(SchemaMismatchError, match="nanoseconds"):
        await adelta.convert(tmp_path / "ns")
    put(tmp_path / "case", "a.parquet", pa.table({"a": [1], "A": [1]}))
    with pytest.raises(SchemaMismatchError, match="case alone"):
        await adelta.convert(tmp_path / "case")
    put(tmp_path / "bytes", "p=x/a.parquet", pa.table({"a": [1]}))
    (tmp_path / "bytes/p=x").rename(tmp_path / "bytes/p=\udcff")
    with pytest.raises(InvalidTableError, match="UTF-8"):
        await adelta.convert(tmp_path / "bytes", partition_schema="p string")
    for path in (".hoodie/x", "_spark_metadata/0", "below/_delta_log/00000000000000000000.json"):
        root = tmp_path / path.replace("/", "_")
        put(root, "a.parquet", pa.table({"a": [1]}))
        (root / path).parent.mkdir(parents=True)
        (root / path).touch()
        with pytest.raises(InvalidOptionError):
            await adelta.convert(root)
    by_name = {"delta.columnMapping.mode": "name"}
    for wrong in (
        {"delta.constraints.c": "a > 0"},
        {"delta.columnMapping.mode": "id"},
        {"delta.enableIcebergCompatV2": "true", **by_name},
    ):
        put(tmp_path / "three", "a.parquet", pa.table({"a": [1]}))
        with pytest.raises((InvalidPropertyError, UnsupportedFeatureError)):
            await adelta.convert(tmp_path / "three", properties=wrong)
    assert not (tmp_path / "three/_delta_log").exists()


@pytest.mark.parametrize(
    "properties", [{"delta.enableRowTracking": "true"}, {"delta.feature.rowTracking": "supported"}]
)
async def test_a_table_that_counts_rows_is_not_made_without_statistics(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    (tmp_path / "a.parquet").write_bytes(b"is not looked at")
    with pytest.raises(InvalidPropertyError, match="collect_statistics=True"):
        await adelta.convert(tmp_path, properties=properties, collect_statistics=False)
    with pytest.raises(InvalidPropertyError, match="collect_statistics=True"):
        await adelta.convert_iceberg(tmp_path, properties=properties, collect_statistics=False)


async def test_of_a_local_file_with_a_long_footer_no_more_than_that_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = pa.table({f"one_of_many_columns_{n}": range(n, n + 400) for n in range(600)})
    put(tmp_path, "wide.parquet", wide)
    lengths: list[int] = []
    whole = LocalStore.read_suffix

    def noted(self: LocalStore, path: str, length: int, **how: Any) -> SuffixRead:
        lengths.append(length)
        return whole(self, path, length, **how)

    monkeypatch.setattr(LocalStore, "read_suffix", noted)
    await adelta.convert(str(tmp_path))
    footer = pq.read_metadata(tmp_path / "wide.parquet").serialized_size + 8
    assert lengths[0] == footer
    assert footer > 64 * 1024
    assert (tmp_path / "wide.parquet").stat().st_size > 4 * footer


async def test_on_s3_a_file_takes_one_request_and_few_more_bytes_than_its_footer(
    s3_location: S3Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, options = s3_location.uri, s3_location.storage_options
    async with adelta.open_table(uri, options) as table:
        for number in range(40):
            rows = pa.table({"id": list(range(number, number + 5000))})
            put(tmp_path, "a.parquet", rows, compression="none", use_dictionary=False)
            path = f"p={number % 3}/{number:03}.parquet"
            await table.store.put(path, (tmp_path / "a.parquet").read_bytes())
    asked: list[int] = []
    original = S3Store.get_suffix

    async def counted(self: S3Store, path: str, length: int) -> SuffixRead:
        asked.append(length)
        return await original(self, path, length)

    monkeypatch.setattr(S3Store, "get_suffix", counted)
    done = await adelta.convert(uri, partition_schema="p int", storage_options=options)
    assert done.num_converted_files == len(asked) == 40
    assert sorted(asked)[-2] == 4096  # of the second file on
    async with adelta.open_table(uri, options) as table:
        assert await (await table.snapshot()).scan(where="id >= 5000").count() == 780


async def test_folders_that_are_values_alone_name_the_columns_in_their_order(
    tmp_path: Path,
) -> None:
    for year, month in (("2024", "1"), ("2024", "__HIVE_DEFAULT_PARTITION__")):
        folder = tmp_path / year / month
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"n": [1]}), folder / "a.parquet")
    columns = "year INT, month INT"
    with pytest.raises(InvalidOptionError, match="folders"):
        await adelta.convert(
            tmp_path, partition_schema="year INT", folder_names="directory", dry_run=True
        )
    with pytest.raises(InvalidOptionError):
        await adelta.convert(tmp_path, partition_schema=columns)
    await adelta.convert(tmp_path, partition_schema=columns, folder_names="directory")
    async with adelta.open_table(tmp_path) as table:
        rows = (await (await table.snapshot()).scan().to_arrow()).to_pylist()
    assert sorted(rows, key=str) == [
        {"n": 1, "year": 2024, "month": 1},
        {"n": 1, "year": 2024, "month": None},
    ]
