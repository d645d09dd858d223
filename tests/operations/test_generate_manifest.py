"""Symlink manifests (C7-15): what they name, when they are kept up, and what is refused."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import adelta
from adelta.errors import InvalidUseError, RootNotAllowedError
from adelta.log.load import load_state
from adelta.storage.local import LocalStore
from adelta.write import symlink_manifests

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])
KEPT = {"delta.compatibility.symlinkFormatManifest.enabled": "true"}


def rows(**ids: int) -> pa.Table:
    return pa.table({"id": list(ids.values()), "p": list(ids)}, schema=SCHEMA)


def manifests(root: Path) -> dict[str, set[str]]:
    """The manifests by their folders, with the paths of their files below the table."""
    top = root / "_symlink_format_manifest"
    found = {}
    for file in top.rglob("manifest"):
        lines = file.read_text().splitlines()
        assert all(line.startswith(f"file://{root}/") for line in lines)
        found[str(file.parent.relative_to(top))] = {
            line[len(f"file://{root}/") :] for line in lines
        }
    return found


async def live(root: Path) -> dict[str, set[str]]:
    """The files of the table by their folders."""
    async with adelta.open_table(root) as table:
        files = await (await table.snapshot()).files()
    found: dict[str, set[str]] = {}
    for path in files.column("path").to_pylist():
        found.setdefault(path.rpartition("/")[0] or ".", set()).add(path)
    return found


async def test_a_manifest_names_the_files_of_a_partition(tmp_path: Path) -> None:
    root = tmp_path / "a table"
    await adelta.write_table(root, rows(a=1, b=2), partition_by=["p"])
    await adelta.write_table(root, pa.table({"id": [3, 4], "p": ["x/y z", None]}))
    done = await adelta.generate_manifest(root)
    assert (done.version, done.num_manifests, done.num_files, done.num_removed) == (1, 4, 4, 0)
    found = manifests(root)
    assert set(found) == {"p=a", "p=b", "p=x%2Fy z", "p=__HIVE_DEFAULT_PARTITION__"}
    for path in (path for paths in found.values() for path in paths):
        assert (root / path).is_file()
    await adelta.delete(root, "p = 'a'")
    again = await adelta.generate_manifest(root)
    assert (again.num_manifests, again.num_removed) == (3, 1)
    assert set(manifests(root)) == set(found) - {"p=a"}
    assert not (root / "_symlink_format_manifest/p=a/manifest").exists()


async def test_a_table_without_partitions_has_one_even_when_it_is_empty(tmp_path: Path) -> None:
    await adelta.write_table(tmp_path, rows(a=1))
    await adelta.generate_manifest(tmp_path)
    assert manifests(tmp_path) == await live(tmp_path)
    await adelta.delete(tmp_path)
    await adelta.generate_manifest(tmp_path)
    assert manifests(tmp_path) == {".": set()}


async def test_commits_keep_those_of_the_partitions_that_they_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await adelta.write_table(tmp_path, rows(a=1, b=2, c=3), partition_by=["p"])
    await adelta.set_properties(tmp_path, KEPT)  # from now on: all of them
    assert manifests(tmp_path) == await live(tmp_path)
    written: list[str] = []
    put = LocalStore.put

    async def counted(self: LocalStore, path: str, data: bytes) -> Any:
        written.append(path)
        return await put(self, path, data)

    monkeypatch.setattr(LocalStore, "put", counted)
    await adelta.write_table(tmp_path, rows(a=4, d=5))
    top = "_symlink_format_manifest"
    assert sorted(p for p in written if "manifest" in p) == [f"{top}/p={p}/manifest" for p in "ad"]
    assert manifests(tmp_path) == await live(tmp_path)
    await adelta.delete(tmp_path, "p in ('b', 'd')")
    assert manifests(tmp_path) == await live(tmp_path)
    assert set(manifests(tmp_path)) == {"p=a", "p=c"}


async def test_a_commit_that_came_meanwhile_is_in_the_manifest_that_is_written_last(
    tmp_path: Path,
) -> None:
    await adelta.write_table(tmp_path, rows(a=1), partition_by=["p"])
    async with adelta.open_table(tmp_path) as table:
        old = await load_state(table.store)
        await adelta.write_table(tmp_path, rows(a=2))
        await adelta.set_properties(tmp_path, KEPT)
        await symlink_manifests.write_manifests(old)  # a writer that was slow
        assert manifests(tmp_path) == await live(tmp_path)
        before = await load_state(table.store)
        await adelta.write_table(tmp_path, rows(a=3))
        await symlink_manifests.keep_manifests(before)
    assert manifests(tmp_path) == await live(tmp_path)


@pytest.mark.parametrize(
    "properties",
    [{"delta.columnMapping.mode": "name"}, {"delta.enableDeletionVectors": "true"}],
)
async def test_tables_that_manifests_would_misrepresent_are_refused(
    tmp_path: Path, properties: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    await adelta.create_table(tmp_path, SCHEMA, properties={**properties, **KEPT})
    with caplog.at_level(logging.WARNING, logger="adelta.transaction"):
        await adelta.write_table(tmp_path, rows(a=1, b=2))
        await adelta.delete(tmp_path, "id = 1")
    assert "symlink manifest failed" in caplog.text
    with pytest.raises(InvalidUseError, match=r"map|vectors"):
        await adelta.generate_manifest(tmp_path)


async def test_nothing_is_written_or_deleted_outside_of_the_table(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "table", tmp_path / "elsewhere"
    await adelta.write_table(root, rows(a=1), partition_by=["p"])
    (elsewhere / "p=b").mkdir(parents=True)
    (elsewhere / "p=b/manifest").write_text("of others")
    (root / "_symlink_format_manifest").symlink_to(elsewhere)
    with pytest.raises(RootNotAllowedError):
        await adelta.generate_manifest(root)
    assert [path.name for path in elsewhere.iterdir()] == ["p=b"]
    assert (elsewhere / "p=b/manifest").read_text() == "of others"
