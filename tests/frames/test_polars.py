"""Tables in polars: lazily read by columns and predicates, and written."""

from __future__ import annotations

import datetime as dt
import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import adelta.sync
from adelta.errors import InvalidOptionError, VersionNotFoundError

if TYPE_CHECKING:
    from pathlib import Path

pl = pytest.importorskip("polars")
polars = pytest.importorskip("adelta.polars")

DAY = dt.datetime(2026, 1, 1)
ROWS = pa.table(
    {
        "id": pa.array([*range(8), None], pa.int32()),
        "f": [0.5, -1.0, float("nan"), None, 4.0, 5.5, float("inf"), 7.0, 8.0],
        "f32": pa.array([0.1] * 9, pa.float32()),
        "s": ["a", "b", None, "ä", "", "Z", "b", "c", "d"],
        "b": [True, False, None] * 3,
        "day": [DAY.date() + dt.timedelta(days=n) for n in range(9)],
        "at": pa.array([DAY + dt.timedelta(hours=n) for n in range(9)], pa.timestamp("us", "UTC")),
        "local": pa.array([DAY + dt.timedelta(hours=n) for n in range(9)], pa.timestamp("us")),
    }
)


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    uri = str(tmp_path_factory.mktemp("polars") / "table")
    for start in range(0, 9, 3):
        adelta.sync.write_table(uri, ROWS.slice(start, 3))
    return uri


c = pl.col
AWARE = DAY.replace(tzinfo=dt.UTC)
PUSHED = [
    c("id") > 4,
    (c("id") >= 2) & (c("s") == "b"),
    (c("id") < 2) | (c("id") == 7),
    ~(c("id") == 3),
    c("id").is_in([1, 5, 99]),
    c("s").is_in(["a", "ä"]),
    c("id").is_between(2, 4),
    c("id").is_between(2, 4, closed="none"),
    c("id").is_null(),
    c("s").is_not_null(),
    c("f") > 4,
    c("f") < 0.0,
    c("f") > 100,
    c("b"),
    ~c("b"),
    c("day") >= dt.date(2026, 1, 6),
    c("at") > AWARE + dt.timedelta(hours=5),
    c("local") > DAY + dt.timedelta(hours=5),
    pl.lit(3) < c("id"),
    c("s") < "b",
]
LEFT = [
    c("f") == float("inf"),
    c("f32") == pl.lit(0.1, pl.Float32),
    c("id") % 2 == 1,
    (c("id") > 2) & (c("s").str.len_chars() == 1),
    ~c("id").is_in([1, None]),
    c("id").eq_missing(None),
    c("s").str.starts_with("b") | (c("id") == 0),
    c("at").dt.hour() == 3,
    c("id").cast(pl.String) == "4",
]


@pytest.mark.parametrize("predicate", [*PUSHED, *LEFT], ids=str)
def test_a_predicate_keeps_the_rows_that_polars_keeps(uri: str, predicate: Any) -> None:
    whole = pl.DataFrame(ROWS)
    for wanted in (["id", "s"], ["f"]):
        found = polars.scan_delta(uri).filter(predicate).select(wanted).collect()
        assert found.equals(whole.filter(predicate).select(wanted))


@pytest.mark.parametrize("predicate", PUSHED, ids=str)
def test_what_can_be_told_from_files_is_pushed_down(predicate: Any) -> None:
    node, is_whole = polars.polars_predicate(predicate.meta.serialize(format="json"), ROWS.schema)
    assert is_whole
    assert node is not None


def test_files_that_a_filter_excludes_and_columns_nobody_needs_are_not_read(
    tmp_path: Path,
) -> None:
    uri = str(tmp_path / "table")
    for start in range(0, 9, 3):
        adelta.sync.write_table(uri, ROWS.slice(start, 3))
    with adelta.sync.open_table(uri) as table:
        snapshot = table.snapshot()
        frame = polars.scan_delta(snapshot)
        for path in snapshot.files(where="id < 6")["path"].to_pylist():
            (tmp_path / "table" / path).unlink()
        odd = c("id") % 2 == 1
        assert frame.filter((c("id") >= 6) & odd).select("s").collect()["s"].to_list() == ["c"]
        with pytest.raises(Exception, match="named by the log and not there"):
            frame.collect()


def test_versions_rows_and_engines(uri: str) -> None:
    assert polars.scan_delta(uri, version=0).collect().height == 3
    assert polars.scan_delta(uri).head(4).collect().height == 4
    assert polars.scan_delta(uri).head(4).filter(c("id") > 2).collect()["id"].to_list() == [3]
    assert polars.scan_delta(uri).select(pl.len()).collect().item() == 9
    assert polars.scan_delta(uri).collect(engine="streaming").height == 9
    assert polars.scan_delta(uri).collect_schema()["at"] == pl.Datetime("us", "UTC")
    with adelta.sync.open_table(uri) as table:
        assert polars.scan_delta(table).collect().height == 9
        snapshot = table.snapshot()
        with pytest.raises(InvalidOptionError, match="a version already"):
            polars.scan_delta(snapshot, version=1)
        assert pickle.loads(pickle.dumps(snapshot)).version == snapshot.version
    with pytest.raises(VersionNotFoundError):
        polars.scan_delta(uri, version=99)


def test_frames_are_written_as_they_are_computed(uri: str, tmp_path: Path) -> None:
    target = str(tmp_path / "target")
    done = polars.sink_delta(
        polars.scan_delta(uri).filter(c("id") >= 4), target, partition_by=["b"]
    )
    assert (done.version, done.num_output_rows) == (0, 4)
    assert polars.sink_delta(pl.DataFrame(ROWS), target, mode="append").num_output_rows == 9
    empty = polars.scan_delta(uri).filter(c("id") > 99)
    assert empty.adelta.sink_delta(target, mode="overwrite").version == 2
    assert polars.scan_delta(target).collect().height == 0
    assert polars.scan_delta(target).collect_schema() == polars.scan_delta(uri).collect_schema()
