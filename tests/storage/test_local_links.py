"""Links below the root of a local store: nothing is written or deleted through them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from adelta.errors import InvalidOptionError, OutsideRootError, PermissionDeniedError
from adelta.storage.local import LocalStore
from tests.storage.object_store_suite import pieces

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    (folder / "sub").mkdir(parents=True)
    (folder / "file").write_bytes(b"precious")
    (folder / "sub" / "file").write_bytes(b"precious")
    return folder


def whole(elsewhere: Path) -> bool:
    files = [elsewhere / "file", elsewhere / "sub" / "file"]
    return [p.read_bytes() for p in files] == [b"precious"] * 2 and (
        sum(len(names) for _, _, names in os.walk(elsewhere)) == 2
    )


async def test_nothing_is_deleted_through_a_linked_folder(tmp_path: Path, elsewhere: Path) -> None:
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "linked").symlink_to(elsewhere)
    store = LocalStore(tmp_path / "table")
    await store.put("own/file", b"")
    for path in ("linked/file", "linked/sub/file", "linked/not-there"):
        with pytest.raises(OutsideRootError, match="linked' is a link"):
            await store.delete([path, "own/file"])
        assert whole(elsewhere)
        assert not (tmp_path / "table" / "own" / "file").exists(), "the others go all the same"


async def test_a_linked_file_is_left_as_is_what_it_leads_to(
    tmp_path: Path, elsewhere: Path
) -> None:
    store = LocalStore(tmp_path / "table")
    await store.put("z", b"")
    link = tmp_path / "table" / "a"
    link.symlink_to(elsewhere / "file")
    with pytest.raises(OutsideRootError, match="a' is not deleted"):
        await store.delete(["a", "z"])
    assert link.is_symlink()
    assert whole(elsewhere)
    assert not (tmp_path / "table" / "z").exists()


async def test_a_link_among_thousands_keeps_none_of_the_others(
    tmp_path: Path, elsewhere: Path
) -> None:
    store = LocalStore(tmp_path / "table")
    await store.put("0", b"")
    names = [f"{number}" for number in range(6000)]
    for name in names[1:]:
        (tmp_path / "table" / name).touch()
    (tmp_path / "table" / "a").symlink_to(elsewhere / "file")
    (tmp_path / "table" / "10").unlink()
    (tmp_path / "table" / "10").symlink_to(elsewhere / "file")
    with pytest.raises(OutsideRootError, match="10' is not deleted"):
        await store.delete([*names, "a"])
    assert sorted(os.listdir(tmp_path / "table")) == ["10", "a"]
    assert whole(elsewhere)


async def test_what_is_no_file_is_not_deleted(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    store = LocalStore(tmp_path)
    with pytest.raises(OutsideRootError, match="pipe"):
        await store.delete(["pipe"])
    await store.delete(["folder", "folder/x", "gone/x"])
    assert sorted(os.listdir(tmp_path)) == ["folder", "pipe"]


async def test_nothing_is_written_through_a_linked_folder(tmp_path: Path, elsewhere: Path) -> None:
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "linked").symlink_to(elsewhere)
    store = LocalStore(tmp_path / "table")
    for path in ("linked/file", "linked/sub/file", "linked/new"):
        for put in (
            store.put(path, b"x"),
            store.put_if_absent(path, b"x"),
            store.put_stream(path, pieces(b"x")),
        ):
            with pytest.raises(PermissionDeniedError, match="mounted"):
                await put
    assert whole(elsewhere)


async def test_a_put_takes_the_place_of_a_link_and_leaves_what_it_leads_to(
    tmp_path: Path, elsewhere: Path
) -> None:
    store = LocalStore(tmp_path / "table")
    await store.put("other", b"")
    (tmp_path / "table" / "hint").symlink_to(elsewhere / "file")
    with pytest.raises(FileExistsError):
        await store.put_if_absent("hint", b"new")
    await store.put("hint", b"new")
    assert await store.get("hint") == b"new"
    assert whole(elsewhere)


async def test_the_root_may_be_reached_through_links(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "lake").symlink_to(tmp_path / "disk")
    store = LocalStore(tmp_path / "lake" / "table")
    await store.put("a/x", b"1")
    await store.put_if_absent("a/y", b"2")
    await store.delete(["a/x"])
    assert os.listdir(tmp_path / "disk" / "table" / "a") == ["y"]


async def test_a_folder_that_becomes_a_link_meanwhile_is_not_followed(
    tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is done is done in the folder that was opened, wherever its name leads by then."""
    store = LocalStore(tmp_path / "table")
    await store.put("sub/file", b"own")
    real = os.stat

    def swapped(path: str, **keywords: object) -> os.stat_result:
        if path == "file":
            monkeypatch.undo()
            (tmp_path / "table" / "sub").rename(tmp_path / "table" / "moved")
            (tmp_path / "table" / "sub").symlink_to(elsewhere)
        return real(path, **keywords)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "stat", swapped)
    await store.delete(["sub/file"])
    assert whole(elsewhere)
    assert os.listdir(tmp_path / "table" / "moved") == []


async def test_links_that_lead_nowhere_are_not_listed(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    await store.put("x", b"")
    (tmp_path / "itself").symlink_to("itself")
    (tmp_path / "broken").symlink_to("nowhere")
    assert [meta.path async for page in store.list() for meta in page] == ["x"]


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"])
async def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidOptionError):
        LocalStore(f"{tmp_path}/{name}")
    store = LocalStore(tmp_path)
    for use in (store.get(name), store.head(name), store.put(name, b""), store.delete([name])):
        with pytest.raises(InvalidOptionError):
            await use


def test_a_relative_root_needs_a_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(InvalidOptionError, match="absolute"):
        LocalStore("table")
