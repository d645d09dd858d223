"""Dry runs of DELETE, UPDATE and MERGE: they write nothing, and tell what is done then."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import adelta
import adelta.sync
from adelta.cli.main import main
from adelta.errors import InvalidExpressionError, InvariantViolationError

TOLD = (
    "num_deleted_rows", "num_updated_rows", "num_copied_rows", "num_removed_files",
    "num_deletion_vectors_added", "num_deletion_vectors_removed",
    "num_source_rows", "num_target_rows_inserted", "num_target_rows_updated",
    "num_target_rows_deleted", "num_target_rows_not_matched_by_source_deleted",
    "num_target_files_before_skipping", "num_target_files_after_skipping",
)  # fmt: skip
CONDITIONS = (None, "id < 4", "p = 0", "id = 3 AND p = 1", "id > 1000", "v = 'x' OR id % 2 = 0")
PROPERTIES = {
    "copies": {"delta.enableChangeDataFeed": "true"},
    "vectors": {"delta.enableDeletionVectors": "true"},
}
SOURCE = pa.table({"id": [1, 2, 77], "p": [1, 0, 0], "more": [1, 2, 3]})


@pytest.fixture(params=PROPERTIES)
async def table(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    rows = pa.table({"id": range(20), "p": [0, 1] * 10, "v": ["x"] * 20})
    place = str(tmp_path / "t")
    how: dict[str, Any] = {"partition_by": ["p"], "properties": PROPERTIES[request.param]}
    await adelta.write_table(place, rows.slice(0, 10), **how)
    await adelta.write_table(place, rows.slice(10))
    await adelta.delete(place, "id IN (5, 6)")
    return place


def told(metrics: Any) -> dict[str, Any]:
    return {name: value for name, value in asdict(metrics).items() if name in TOLD}


def files(table: str) -> list[str]:
    return sorted(str(path) for path in Path(table).rglob("*"))


@pytest.mark.parametrize("where", CONDITIONS)
@pytest.mark.parametrize("verb", ["delete", "update"])
async def test_what_is_told_is_what_is_done(table: str, verb: str, where: str | None):
    async def run(**arguments: Any) -> Any:
        if verb == "delete":
            return await adelta.delete(table, where, **arguments)
        return await adelta.update(table, {"v": "concat(v, 'y')"}, where, **arguments)

    before = files(table)
    planned = await run(dry_run=True)
    assert planned.version is None
    assert files(table) == before
    done = await run()
    assert told(planned) == told(done)


async def test_a_merge_tells_how_many_rows(table: str):
    merge = (
        adelta.merge(table, SOURCE, "target.id = source.id", schema_mode="merge", txn=("m", 1))
        .when_matched_update({"more": "source.more"}, "source.p = target.p AND source.id = 1")
        .when_matched_delete()
        .when_not_matched_insert_all()
        .when_not_matched_by_source_delete("target.id > 17")
    )
    before = files(table)
    planned = await merge.execute(dry_run=True)
    assert planned.version is None
    assert files(table) == before
    done = await merge.execute()
    assert done.version == 3
    assert told(planned) | {"num_copied_rows": 0} == told(done) | {"num_copied_rows": 0}
    assert (await merge.execute(dry_run=True)).num_source_rows == 0  # the application did it


async def test_what_cannot_be_done_is_said(table: str):
    with pytest.raises(InvalidExpressionError):
        await adelta.delete(table, "nothing = 1", dry_run=True)
    await adelta.set_properties(table, {"delta.appendOnly": "true"})
    with pytest.raises(InvariantViolationError):
        await adelta.update(table, {"v": "'z'"}, dry_run=True)


def test_commands_say_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    table, source = str(tmp_path / "t"), str(tmp_path / "s")
    rows = pa.table({"id": [1, 2, 3]})
    for place in (table, source):
        adelta.sync.write_table(place, rows)
    assert main(["delete", table, "--where", "id > 1", "--dry-run"]) == 0
    assert main(["update", table, "--set", "id=id + 1", "--all", "--dry-run"]) == 0
    matched = ["--on", "target.id = source.id", "--delete", "source.id = 1", "--dry-run"]
    assert main(["merge", table, source, *matched]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Would delete 2 rows.",
        "Would update 3 rows.",
        "Would insert 0 rows, update 0 and delete 1.",
    ]
    assert adelta.sync.open_table(table).snapshot().version == 0
