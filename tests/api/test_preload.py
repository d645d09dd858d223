"""`adelta.preload` loads all that reading and changing tables needs: nothing is loaded later.

A case is a process of its own, which is told of every module that is loaded after it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.support.postgres_server import PostgresServer
    from tests.support.s3_server import S3Location

KEYS = ("aws_access_key_id", "aws_secret_access_key")
PROGRAM = """
import adelta, adelta.sync, asyncio, json, sys
import pyarrow as pa

uri, copy, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
adelta.preload()
later = []
sys.addaudithook(lambda event, given: later.append(given[0]) if event == "import" else None)

rows = pa.table({"p": ["a", "b", "a"], "id": [1, 2, 3], "v": [1.0, None, 2.5]})
features = ("delta.enableChangeDataFeed", "delta.enableDeletionVectors", "delta.enableRowTracking")

async def main():
    properties = dict.fromkeys(features, "true")
    await adelta.write_table(
        uri, rows, partition_by=["p"], properties=properties, storage_options=options
    )
    async with adelta.open_table(uri, storage_options=options) as table:
        await adelta.add_constraint(table, "small", "id < 100")
        await adelta.write_table(table, rows)
        await adelta.update(table, {"v": "v + 1"}, "id = 1 AND p LIKE 'a%'")
        await adelta.delete(table, "id = 2")
        merging = adelta.merge(table, rows, "source.id = target.id")
        await merging.when_matched_update_all().when_not_matched_insert_all().execute()
        await adelta.optimize(table)
        await adelta.optimize(table, zorder_by=["id"])
        await adelta.checkpoint(table)
        await adelta.vacuum(table)
        await adelta.cleanup_log(table)
        await adelta.history(table)
        await adelta.detail(table)
        await adelta.fsck(table)
        await adelta.analyze(table)
        await adelta.restore(table, version=2)
        await adelta.clone(table, copy, storage_options=options)
        snapshot = await table.snapshot()
        await snapshot.scan(where="id > 1 AND p = 'a'", columns=["id"]).to_arrow()
        async for _ in adelta.changes(table, 1):
            pass
        async with table.transaction() as tx:
            await tx.append(rows)
        third = await adelta.create_table(f"{copy}2", rows.schema, storage_options=options)
        async with third as to:
            consumer = adelta.Consumer(
                table, "consumer", to, start=0, follow=False, on_rewrite="skip"
            )
            async with consumer:
                async for batch in consumer:
                    await consumer.append(batch)
        async for _ in adelta.tail(table):
            break
        try:
            await snapshot.scan(where="nothing = 1").to_arrow()
        except adelta.errors.AdeltaError:
            pass

asyncio.run(main())
adelta.sync.open_table(uri, storage_options=options).snapshot().scan().count()
print(json.dumps(later))
"""


def loaded_later(uri: str, copy: str, options: Mapping[str, str]) -> list[str]:
    """What a process loads that does what tables are for, after `preload`."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, uri, copy, json.dumps(dict(options))],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    later: list[str] = json.loads(done.stdout.splitlines()[-1])
    return later


def test_nothing_is_loaded_later_on_a_local_disk(tmp_path: Path) -> None:
    assert loaded_later(str(tmp_path / "table"), str(tmp_path / "copy"), {}) == []


def test_nothing_is_loaded_later_on_s3_by_a_profile_and_a_commit_lock(
    s3_location: S3Location,
    postgres_server: PostgresServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    uri, options = s3_location.uri, dict(s3_location.storage_options)
    keys = [f"{name} = {options.pop(name)}" for name in KEYS]
    (tmp_path / "credentials").write_text("\n".join(["[service]", *keys]))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_PROFILE", "service")
    options |= postgres_server.storage_options
    assert loaded_later(f"{uri}/table", f"{uri}/copy", options) == []


@pytest.mark.parametrize("missing", ["duckdb", "aiobotocore"])
def test_what_is_not_installed_is_left_out(missing: str) -> None:
    program = f"import sys; sys.modules[{missing!r}] = None; import adelta; adelta.preload()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_cannot_be_loaded_is_left_out_and_told(tmp_path: Path) -> None:
    (tmp_path / "asyncpg.py").write_text("raise ImportError('libpq is of another age')")
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import adelta; adelta.preload()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "asyncpg is installed and cannot be loaded: libpq is of another age" in done.stderr
