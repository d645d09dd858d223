"""What adelta.deltalake does that deltalake does otherwise, or not at all."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import arro3.core
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pa_fs  # noqa: TID251 - whose file systems are given
import pyarrow.parquet as pq
import pytest

import adelta
from adelta.deltalake import (
    BloomFilterProperties,
    ColumnProperties,
    DeltaTable,
    Field,
    WriterProperties,
    write_deltalake,
)
from adelta.deltalake._sql import spark_sql
from adelta.deltalake.exceptions import (
    CommitFailedError,
    DeltaError,
    DeltaProtocolError,
    TableNotFoundError,
)
from adelta.deltalake.fs import DeltaStorageHandler

ROWS = pa.table({"id": pa.array([1, 2, 3, 4], pa.int64()), "s": ["a", "b", "c", "d"]})


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("\"my col\" = 'it''s'", r"`my col` = 'it\'s'"),
        ("s = 'a\\b'", r"s = 'a\\b'"),
        ("`a``b` = [1, 2]", "`a``b` = array(1, 2)"),
        ("l[1] = m['k'] and x in (make_array(1)[0])", "l[1] = m['k'] and x in (array(1)[0])"),
        ('a = 1 -- "said"', 'a = 1 -- "said"'),
        ('"select" > 1', "`select` > 1"),
        ("STARTS_WITH (s, 'a') or ends_with", "startswith (s, 'a') or ends_with"),
        ("cast(a AS Varchar) = b::text or text > ''", "cast(a AS string) = b::string or text > ''"),
    ],
)
def test_sql_is_put_into_sparks_words(given: str, meant: str) -> None:
    assert spark_sql(given) == meant


def test_tables_with_deletion_vectors_are_read(tmp_path: Path) -> None:
    uri = str(tmp_path)
    write_deltalake(uri, ROWS, configuration={"delta.enableDeletionVectors": "true"})
    table = DeltaTable(uri)
    table.delete("id IN (1, 3)")
    assert table.to_pyarrow_table()["id"].to_pylist() == [2, 4]
    assert table.to_pandas(filters=pc.field("id") > 2)["id"].tolist() == [4]
    (told,) = table.deletion_vectors().read_all().to_pylist()
    assert told == {
        "filepath": f"file://{table.file_uris()[0]}",
        "selection_vector": [False, True, False, True],
    }
    with pytest.raises(DeltaProtocolError, match="deletionVectors"):
        table.to_pyarrow_dataset()


def test_columns_are_called_as_the_table_calls_them(tmp_path: Path) -> None:
    uri = str(tmp_path)
    rows = ROWS.append_column("part", pa.array(["x", "x", "y", None]))
    mapped = {"delta.columnMapping.mode": "name"}
    write_deltalake(uri, rows, partition_by="part", configuration=mapped)
    adelta.sync.rename_column(uri, "part", "p")
    adelta.sync.rename_column(uri, "id", "number")
    table = DeltaTable(uri)
    assert sorted(map(str, table.partitions())) == ["{'p': 'x'}", "{'p': 'y'}", "{'p': None}"]
    flat = table.get_add_actions(flatten=True).sort_by("min.number")
    assert flat["partition.p"].to_pylist() == ["x", "y", None]
    assert flat["max.number"].to_pylist() == [2, 3, 4]
    assert len(table.file_uris(file_pruning_predicate=[("p", "=", "x")])) == 1
    assert table.to_pyarrow_table(columns=["number"]).num_rows == 4
    with pytest.raises(DeltaProtocolError, match="columnMapping"):
        table.to_pyarrow_dataset()


def test_a_data_set_leaves_no_row_out(tmp_path: Path) -> None:
    uri = str(tmp_path)
    for values in ([1.0, 3.0], [2.0, None], [None, None]):
        n = [None if v is None else int(v) for v in values]
        write_deltalake(uri, pa.table({"f": values, "n": pa.array(n, pa.int64())}), mode="append")
    found = DeltaTable(uri).to_pyarrow_dataset()
    for name in ("f", "n"):
        field = pc.field(name)
        assert found.to_table(filter=field.is_null()).num_rows == 3
        assert found.to_table(filter=field >= 2).num_rows == 2
        assert len(list(found.get_fragments(filter=field > 2))) == 1
    again: Any = pickle.loads(pickle.dumps(found))
    assert again.to_table().num_rows == 6


def test_a_folder_is_a_file_system(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), ROWS)
    handler = DeltaStorageHandler(str(tmp_path))
    files = pa_fs.PyFileSystem(handler)
    with files.open_output_stream("x/z.bin") as out:
        out.write(b"hello world")
    with files.open_input_file("x/z.bin") as file:
        assert (file.size(), file.read(5), file.tell()) == (11, b"hello", 5)
        file.seek(6)
        assert file.read() == b"world"
    files.copy_file("x/z.bin", "y.bin")
    files.move("y.bin", "w.bin")
    assert files.get_file_info("w.bin").size == 11
    listed = files.get_file_info(pa_fs.FileSelector("", recursive=False))
    assert {info.path for info in listed} >= {"_delta_log", "w.bin", "x"}
    files.delete_file("w.bin")
    files.delete_dir("x")
    kinds = [info.type for info in files.get_file_info(["w.bin", "x", "_delta_log"])]
    missing, folder = pa_fs.FileType.NotFound, pa_fs.FileType.Directory
    assert kinds == [missing, missing, folder]
    for refused in (files.open_input_file, files.delete_file):
        with pytest.raises(FileNotFoundError):
            refused("nope")
    with pytest.raises(NotImplementedError):
        files.open_append_stream("z.bin")
    assert files.get_file_info(pa_fs.FileSelector("nope")) == []
    assert handler == DeltaStorageHandler(str(tmp_path))
    own = pa_fs.SubTreeFileSystem(str(tmp_path), pa_fs.LocalFileSystem())
    assert DeltaTable(str(tmp_path)).to_pyarrow_table(filesystem=own).num_rows == 4


def test_a_pickled_table_opens_at_its_version(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), ROWS)
    table = DeltaTable(tmp_path)
    write_deltalake(table, ROWS, mode="append")
    table.load_as_version(0)
    again = pickle.loads(pickle.dumps(table))
    assert again == table
    assert (again.version(), again.to_pyarrow_table().num_rows) == (0, 4)


def test_an_error_of_adeltas_is_the_cause(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError) as missing:
        DeltaTable(tmp_path)
    assert isinstance(missing.value.__cause__, adelta.errors.TableNotFoundError)
    write_deltalake(str(tmp_path), ROWS)
    with pytest.raises(DeltaError, match=r"No field named nope\.") as wrong:
        DeltaTable(tmp_path).delete("nope = 1")
    assert isinstance(wrong.value.__cause__, adelta.errors.InvalidExpressionError)


def test_a_conflict_is_a_failed_commit(tmp_path: Path) -> None:
    uri = str(tmp_path)
    write_deltalake(uri, ROWS)
    table = DeltaTable(uri)

    def rows() -> Any:
        yield ROWS.to_batches()[0]
        DeltaTable(uri).alter.add_columns(Field("z", "string"))

    source = pa.RecordBatchReader.from_batches(ROWS.schema, rows())
    with pytest.raises(CommitFailedError, match="Failed to commit transaction"):
        write_deltalake(table, source, mode="append")
    assert DeltaTable(uri).version() == 1


def test_files_are_written_as_the_properties_say(tmp_path: Path) -> None:
    uri = str(tmp_path)
    silent = ColumnProperties(
        dictionary_enabled=False,
        statistics_enabled="NONE",
        bloom_filter_properties=BloomFilterProperties(True, 0.1, 30),
    )
    asked = WriterProperties(
        compression="GZIP", max_row_group_size=2, column_properties={"s": silent}
    )

    def footers() -> list[Any]:
        return [pq.read_metadata(path) for path in DeltaTable(uri).file_uris()]

    write_deltalake(uri, ROWS, writer_properties=asked)
    (footer,) = footers()
    number, text = (footer.row_group(0).column(at) for at in (0, 1))
    assert footer.num_row_groups == 2
    assert (number.compression, number.is_stats_set, text.is_stats_set) == ("GZIP", True, False)
    assert "RLE_DICTIONARY" not in text.encodings
    brotli = WriterProperties(compression="BROTLI")
    table = DeltaTable(uri)
    table.update({"s": "'x'"}, predicate="id = 1", writer_properties=brotli)
    table.optimize.z_order(["id"], writer_properties=WriterProperties(compression="ZSTD"))
    assert {each.row_group(0).column(0).compression for each in footers()} == {"ZSTD"}
    table.delete("id = 1", writer_properties=brotli)
    assert {each.row_group(0).column(0).compression for each in footers()} == {"BROTLI"}


def test_arro3s_objects_are_taken_and_what_is_given_fits_them(tmp_path: Path) -> None:
    uri = str(tmp_path)
    write_deltalake(uri, arro3.core.Table.from_arrow(ROWS))
    write_deltalake(uri, arro3.core.Table.from_arrow(ROWS).to_reader(), mode="append")
    table = DeltaTable(uri)
    assert arro3.core.Table.from_arrow(table.scan()).num_rows == 8
    assert arro3.core.Schema.from_arrow(table.schema()) == ROWS.schema
    source = arro3.core.Table.from_arrow(ROWS.slice(0, 1))
    merge = table.merge(source, "t.id = s.id", source_alias="s", target_alias="t")
    assert merge.when_matched_delete().execute()["num_target_rows_deleted"] == 2


def test_files_are_as_small_as_asked_for(tmp_path: Path) -> None:
    rows = pa.table({"n": range(20_000)})
    for mode in ("error", "append"):
        write_deltalake(str(tmp_path), rows, mode=mode, target_file_size=5000)  # type: ignore[arg-type]
    table = DeltaTable(tmp_path)
    assert len(table.file_uris()) > 10
    assert table.to_pyarrow_table().num_rows == 40_000


def test_versions_are_kept_by_a_vacuum(tmp_path: Path) -> None:
    uri = str(tmp_path)
    for _ in range(3):
        write_deltalake(uri, ROWS, mode="overwrite")
    table = DeltaTable(uri)
    told: dict[str, Any] = {"enforce_retention_duration": False, "dry_run": False}
    assert len(table.vacuum(0, full=True, keep_versions=[0], **told)) == 1
    assert DeltaTable(uri, version=0).to_pyarrow_table().num_rows == 4
    with pytest.raises(FileNotFoundError):
        DeltaTable(uri, version=1).to_pyarrow_table()


def test_a_table_that_only_takes_appends_is_not_replaced(tmp_path: Path) -> None:
    uri = str(tmp_path)
    write_deltalake(uri, ROWS, configuration={"delta.appendOnly": "true"})
    with pytest.raises(DeltaError, match="append-only"):
        write_deltalake(uri, ROWS, mode="overwrite")
    with pytest.raises(DeltaError, match="append-only"):
        DeltaTable.create(uri, ROWS.schema, mode="overwrite")


def run(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_every_example_of_the_page_runs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "migrating_from_deltalake.md").read_text("utf-8")
    examples = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(examples) == 2
    run(examples[0] + examples[1])


POLARS = """
import sys
from adelta.deltalake.as_deltalake import install_as_deltalake
install_as_deltalake(); install_as_deltalake()
import polars as pl
uri = sys.argv[1]
df = pl.DataFrame({"id": [1, 2, 3], "s": ["a", "b", None], "p": ["x", "y", "x"]})
df.write_delta(uri, delta_write_options={"partition_by": ["p"]})
df.write_delta(uri, mode="append")
print(pl.scan_delta(uri).filter(pl.col("id") > 1).select("s").collect().height)
print(pl.read_delta(uri, version=0, use_pyarrow=True).height)
names = {"predicate": "s.id = t.id", "source_alias": "s", "target_alias": "t"}
more = df.with_columns(id=pl.col("id") + 2).filter(pl.col("id") > 3)
merge = more.write_delta(uri, mode="merge", delta_merge_options=names)
print(merge.when_not_matched_insert_all().execute()["num_target_rows_inserted"])
from deltalake import DeltaTable
table = DeltaTable(uri)
table.alter.set_table_properties({"delta.enableDeletionVectors": "true"})
table.delete("id = 1")
print(pl.scan_delta(table).collect().height)
print(type(table).__module__)
"""


def test_polars_takes_it_for_deltalake(tmp_path: Path) -> None:
    said = run(POLARS, str(tmp_path / "t")).split()
    assert said == ["4", "3", "2", "6", "adelta.deltalake.table"]


def test_it_does_not_take_the_place_of_what_is_in_use() -> None:
    code = (
        "import deltalake\n"
        "from adelta.deltalake.as_deltalake import install_as_deltalake\n"
        "try:\n    install_as_deltalake()\nexcept RuntimeError as error:\n    print(error)"
    )
    assert "imported already" in run(code)
