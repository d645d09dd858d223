"""CLONE of what is no Delta table: folders of Parquet files, and Iceberg tables."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import adelta
import adelta.sync
from adelta.cli.main import main
from adelta.errors import InvalidOptionError, TableNotFoundError
from tests.operations.test_clone import rows_of
from tests.operations.test_convert_iceberg import Warehouse, append, row, where

if TYPE_CHECKING:
    from collections.abc import Mapping


def parquet(folder: Path, **files: Mapping[str, list[Any]]) -> Path:
    """A folder of Parquet files that others have written."""
    for name, columns in files.items():
        path = folder / f"{name.replace('__', '/')}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(dict(columns)), path)
    return folder


@pytest.mark.parametrize("shallow", [False, True])
async def test_a_folder_of_parquet_files_is_cloned(tmp_path: Path, shallow: bool) -> None:
    source = parquet(tmp_path / "s s", a={"id": [1, 2]}, inside__b={"id": [3], "x": ["new"]})
    target = str(tmp_path / "t")
    options: dict[str, Any] = {"shallow": shallow, "source_format": "parquet"}
    planned = await adelta.clone(source, target, dry_run=True, **options)
    done = await adelta.clone(source, target, **options)
    assert (done.version, planned.version, done.source_version) == (0, None, None)
    assert done.num_copied_files == planned.num_copied_files == (0 if shallow else 2)
    assert not (source / "_delta_log").exists()
    allowed: dict[str, Any] = {"allowed_roots": [str(source)]} if shallow else {}
    found = await rows_of(target, **allowed)
    assert [(row["id"], row["x"]) for row in found] == [(1, None), (2, None), (3, "new")]
    async with adelta.open_table(target, **allowed) as table:
        snapshot = await table.snapshot()
        stats = (await snapshot.files())["stats"].to_pylist()
        assert sorted(orjson.loads(text)["maxValues"]["id"] for text in stats) == [2, 3]
        [entry] = await adelta.history(table)
        assert entry.operation_parameters == {
            "source": f"parquet.`{source.as_uri()}`",
            "sourceVersion": "-1",
        }
        await adelta.delete(table, "id = 1")
    assert [row["id"] for row in await rows_of(target, **allowed)] == [2, 3]
    assert pq.read_table(source / "a.parquet").num_rows == 2
    if not shallow:
        assert deltalake.DeltaTable(target).to_pyarrow_table().num_rows == 2


async def test_partitions_of_a_folder_are_named_by_the_caller(tmp_path: Path) -> None:
    source = parquet(tmp_path / "s", **{"p=01__a": {"id": [1]}, "p=2__b": {"id": [2]}})
    target = str(tmp_path / "t")
    with pytest.raises(InvalidOptionError, match="partition_schema, for example 'p STRING'"):
        await adelta.clone(source, target, source_format="parquet")
    for version, (kind, texts) in enumerate([("string", ["01", "2"]), ("int", [1, 2])]):
        done = await adelta.clone(
            source, target, source_format="parquet", partition_schema=f"p {kind}", replace=True
        )
        assert (done.version, done.num_copied_files) == (version, 2 if not version else 0)
        assert [row["p"] for row in await rows_of(target)] == texts
        files = deltalake.DeltaTable(target).get_add_actions(flatten=True)
        assert pa.table(files)["partition.p"].to_pylist() == texts


@pytest.mark.parametrize("shallow", [False, True])
@pytest.mark.parametrize("tracking", ["false", "true"])
async def test_a_repeated_clone_takes_in_what_was_written_anew(
    tmp_path: Path, shallow: bool, tracking: str
) -> None:
    source = parquet(tmp_path / "s", a={"id": [1]}, b={"id": [2]}, gone={"id": [3]})
    options: dict[str, Any] = {"source_format": "parquet", "shallow": shallow, "replace": True}
    options["properties"] = {"delta.enableRowTracking": tracking}
    target = str(tmp_path / "t")
    await adelta.clone(source, target, **options)
    parquet(source, b={"id": [20, 21, 22]})
    os.utime(source / "b.parquet", (1, 1))
    (source / "gone.parquet").unlink()
    done = await adelta.clone(source, target, **options)
    assert (done.source_num_of_files, done.num_copied_files) == (2, 0 if shallow else 1)
    allowed: dict[str, Any] = {"allowed_roots": [str(source)]} if shallow else {}
    assert [row["id"] for row in await rows_of(target, **allowed)] == [1, 20, 21, 22]
    async with adelta.open_table(target, **allowed) as table:
        await adelta.checkpoint(table)
        assert (await (await table.snapshot()).files()).num_rows == 2
    again = await adelta.clone(source, target, **options)
    assert (again.num_copied_files, again.num_removed_files) == (0, 0)
    assert [row["id"] for row in await rows_of(target, **allowed)] == [1, 20, 21, 22]


async def test_what_is_not_of_the_format_is_refused(tmp_path: Path) -> None:
    delta, target = str(tmp_path / "d"), str(tmp_path / "t")
    await adelta.write_table(delta, pa.table({"id": [1]}))
    with pytest.raises(InvalidOptionError, match="is a Delta table"):
        await adelta.clone(delta, target, source_format="parquet")
    source = parquet(tmp_path / "s", a={"id": [1]})
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"version": 0}, "as it is now"),
        ({"iceberg_metadata": "m"}, "iceberg_metadata is for"),
        ({"source_format": "delta", "partition_schema": "p int"}, "partition_schema is for"),
        ({"source_format": "csv"}, "source_format"),
    ]
    for options, said in wrong:
        with pytest.raises(InvalidOptionError, match=said):
            await adelta.clone(source, target, **{"source_format": "parquet", **options})
    with pytest.raises(InvalidOptionError, match="lie in"):
        await adelta.clone(source, f"{source}/t", source_format="parquet")
    with pytest.raises(TableNotFoundError, match="no Parquet files"):
        await adelta.clone(tmp_path / "none", target, source_format="parquet")
    assert not (tmp_path / "t").exists()


async def test_the_statement_clones_them(tmp_path: Path) -> None:
    source = parquet(tmp_path / "s", **{"p=1__a": {"id": [1]}, "p=2__b": {"id": [2]}})
    copy = f"delta.`{tmp_path}/t`"
    done = await adelta.sql(
        f"CREATE TABLE {copy} SHALLOW CLONE parquet.`{source}` PARTITIONED BY (p INT)"
        " TBLPROPERTIES ('of' = 'mine')"
    )
    assert done.to_pylist()[0]["source_num_of_files"] == 2
    found = await rows_of(str(tmp_path / "t"), allowed_roots=[str(source)])
    assert [(row["id"], row["p"]) for row in found] == [(1, 1), (2, 2)]
    await adelta.sql(
        f"CREATE OR REPLACE TABLE {copy} CLONE parquet.`{source}` PARTITIONED BY (p INT)"
    )
    assert len(await rows_of(str(tmp_path / "t"))) == 2


def test_the_command_clones_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = parquet(tmp_path / "s", **{"p=1__a": {"id": [1]}, "p=2__b": {"id": [2]}})
    told = [str(source), str(tmp_path / "t"), "--format=parquet", "--partitions=p INT"]
    assert main(["clone", *told, "--dry-run"]) == 0
    told_before = capsys.readouterr().out
    assert "Would clone what is there, 2 files" in told_before
    assert "would copy 2 files" in told_before
    assert main(["clone", *told, "--json"]) == 0
    assert orjson.loads(capsys.readouterr().out)["sourceVersion"] is None
    assert adelta.sync.open_table(tmp_path / "t").snapshot().scan().to_arrow().num_rows == 2


@pytest.mark.parametrize("shallow", [False, True])
def test_an_iceberg_table_is_cloned(tmp_path: Path, shallow: bool) -> None:
    lake = Warehouse(tmp_path / "lake").table()
    append(lake, row(1), row(2))
    with lake.update_schema() as update:
        update.rename_column("name", "called")
    append(lake, row(3) | {"called": "three"})
    path, metadata = where(lake)
    target = str(tmp_path / "t")
    options: dict[str, Any] = {"source_format": "iceberg", "shallow": shallow}
    with pytest.raises(InvalidOptionError, match="its catalog knows"):
        adelta.sync.clone(path, target, **options)
    done = adelta.sync.clone(path, target, iceberg_metadata=metadata, **options)
    assert (done.source_num_of_files, done.num_copied_files) == (2, 0 if shallow else 2)
    assert not Path(path, "_delta_log").exists()
    allowed = [path] if shallow else []
    with adelta.sync.open_table(target, allowed_roots=allowed) as table:
        found = table.snapshot().scan().to_arrow().to_pylist()
        adelta.sync.delete(table, "id < 3")  # and it goes on as any table
        assert table.snapshot().scan().to_arrow()["id"].to_pylist() == [3]
    assert {each["id"]: each["called"] for each in found} == {
        1: row(1)["name"],
        2: row(2)["name"],
        3: "three",
    }
