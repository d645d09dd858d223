"""Spark's own file system beside adelta on one local disk: it verifies each file that it reads."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError

import adelta.sync
from adelta.storage.local import LocalStore
from tests.support.depth import cases
from tests.support.disk import Disk, memory_folder, restore
from tests.support.hadoop_checksums import (
    checksum_of,
    contradictions,
    faults,
    orphans,
    share_with_spark,
    sums,
)
from tests.support.shared_disk import LIVES, Turns, at_once
from tests.support.supervised import Case, supervised
from tests.support.system_calls import why_not
from tests.support.unavailable import unavailable
from tests.support.victim import base_of, put_objects

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

STEPS = cases(200, 40)
ROUNDS = cases(1000, 100)


class Hadoop:
    """The file system that Spark uses for `file:`, in the session's JVM."""

    def __init__(self, spark: SparkSession) -> None:
        session: Any = spark
        self._jvm = session._jvm
        configuration = session._jsc.hadoopConfiguration()
        hadoop = self._jvm.org.apache.hadoop.fs
        self._files = hadoop.Path("file:///").getFileSystem(configuration)
        self._context = hadoop.FileContext.getFileContext(hadoop.Path("file:///").toUri())
        rename = getattr(hadoop, "Options$Rename")
        self._overwrite = session.sparkContext._gateway.new_array(rename, 1)
        self._overwrite[0] = rename.OVERWRITE

    def read(self, path: Path) -> bytes:
        """All of a file. Raises: Py4JJavaError, where it contradicts its checksum."""
        stream = self._files.open(self._path(path))
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def write(self, path: Path, data: bytes) -> None:
        """Create or replace a file in place, as Spark writes Parquet."""
        stream = self._files.create(self._path(path), True)
        stream.write(data)
        stream.close()

    def replace(self, path: Path, data: bytes) -> None:
        """Create or replace a file by renaming another one, as Delta Spark writes its log."""
        fresh = path.with_name(f".{path.name}.{uuid.uuid4()}.tmp")
        self.write(fresh, data)
        self._context.rename(self._path(fresh), self._path(path), self._overwrite)

    def delete(self, path: Path) -> None:
        """Delete a file."""
        assert self._files.delete(self._path(path), False)

    def keep_checksums(self, root: Path) -> None:
        """Write every file below a folder once more, so that it has a checksum."""
        for path in self.visible(root):
            self.write(path, path.read_bytes())

    def refused(self, root: Path) -> list[str]:
        """The files below a folder that cannot be read, or that are read as others."""
        wrong = []
        for path in self.visible(root):
            try:
                data = self.read(path)
            except Py4JJavaError as error:
                if "ChecksumException" not in str(error.java_exception):
                    raise
                wrong.append(str(path.relative_to(root)))
            else:
                assert data == path.read_bytes()
        return wrong

    @staticmethod
    def visible(root: Path) -> list[Path]:
        """The files that are no checksums."""
        return [p for p in sorted(root.rglob("*")) if p.is_file() and not p.name.startswith(".")]

    def _path(self, path: Path) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"file://{path}")


@pytest.fixture(scope="module")
def hadoop(spark: SparkSession) -> Hadoop:
    return Hadoop(spark)


def test_hadoop_and_the_other_tests_agree_on_which_checksum_files_match(
    hadoop: Hadoop, tmp_path: Path
) -> None:
    for size in (0, 1, 511, 512, 513, 100_000):
        path = tmp_path / str(size)
        hadoop.write(path, os.urandom(size))
        assert checksum_of(path).read_bytes() == sums(path.read_bytes())
    assert hadoop.refused(tmp_path) == contradictions(tmp_path) == []
    for path in (tmp_path / "1", tmp_path / "513", tmp_path / "100000"):
        path.write_bytes(b"another")
    assert sorted(hadoop.refused(tmp_path)) == sorted(contradictions(tmp_path))
    assert len(hadoop.refused(tmp_path)) == 3


@pytest.mark.parametrize("data", [b"", b"crc", b"crc\0\0\0", b"notes of mine"])
def test_hadoop_reads_files_beside_cut_off_checksums_and_files_of_users(
    hadoop: Hadoop, tmp_path: Path, data: bytes
) -> None:
    (tmp_path / "x").write_bytes(b"some bytes")
    checksum_of(tmp_path / "x").write_bytes(data)
    assert hadoop.refused(tmp_path) == []


@pytest.mark.parametrize("life", LIVES)
async def test_hadoop_reads_every_file_that_adelta_has_replaced(
    hadoop: Hadoop, tmp_path: Path, life: str
) -> None:
    def keep(root: Path) -> None:
        assert hadoop.refused(root) == []
        hadoop.keep_checksums(root)

    await LIVES[life](tmp_path / "t", keep)
    assert hadoop.refused(tmp_path) == []
    assert not faults(tmp_path)


def test_a_converted_folder_of_sparks_is_vacuumed_with_its_checksums(
    spark: SparkSession, tmp_path: Path
) -> None:
    root = tmp_path / "t"
    spark.range(3).write.parquet(str(root))
    kept = sorted(path.name for path in root.glob(".part*.crc"))
    assert kept, "Spark keeps checksums of its files"
    adelta.sync.convert(root)
    adelta.sync.delete(root, "id = 2")
    adelta.sync.optimize(root)
    adelta.sync.vacuum(root, **at_once)
    assert spark.read.format("adelta").load(str(root)).count() == 2
    assert not set(kept) & set(os.listdir(root))
    assert not faults(root)
    adelta.sync.drop_table(root)
    assert os.listdir(root) == []


class Crash:
    """An operation of adelta's on a table that Spark has written, and what its crashes leave."""

    def __init__(self, folder: Path) -> None:
        self.life = folder / "life"
        self.left = folder / "left"
        self.life.mkdir()

    def images(self, operation: str) -> Iterator[tuple[str, Path]]:
        """What may be left after each change of the disk, with a word on where that was."""
        share_with_spark(self.life / "table")
        disk = Disk.of(str(self.life))
        with supervised() as victims:
            report = victims.run(Case(str(self.life), [operation], journal=True))
        assert report.error == ""
        seen: set[int] = set()
        for number, change in enumerate(report.journal):
            disk.apply(change)
            for what, image in disk.images():
                key = hash(frozenset(image.items()))
                if key not in seen:
                    seen.add(key)
                    shutil.rmtree(self.left, ignore_errors=True)
                    restore(image, str(self.left))
                    yield f"{number}: {change.path}, {what}", self.left


@pytest.mark.parametrize("operation", ["checkpoint again", "manifests", "append", "clean-up"])
async def test_hadoop_reads_every_file_after_a_crash_at_any_call(
    hadoop: Hadoop, operation: str
) -> None:
    """Killed after each change of the disk, or with changes lost that were not synced."""
    if (why := why_not()) is not None:
        unavailable(why)
    num_images = 0
    with TemporaryDirectory(dir=memory_folder()) as folder:
        crash = Crash(Path(folder))
        await put_objects(await base_of(operation), f"{crash.life}/table", {})
        for where, left in crash.images(operation):
            assert hadoop.refused(left) == [], where
            num_images += 1
    assert num_images > 10


def test_a_table_that_hadoop_and_adelta_write_in_turns_stays_readable_to_both(
    hadoop: Hadoop, tmp_path: Path
) -> None:
    turns = Turns(hadoop, tmp_path / "t", seed=41)
    for _ in range(STEPS):
        turns.take()
        assert hadoop.refused(turns.root) == [], turns.last
        assert orphans(turns.root) == [], turns.last
        assert turns.found() == turns.ids, turns.last
    assert not adelta.sync.fsck(turns.root, deep=True).problems


def test_hadoop_reads_a_file_or_the_next_one_while_adelta_replaces_it(
    hadoop: Hadoop, tmp_path: Path
) -> None:
    path = tmp_path / "x"
    store = LocalStore(tmp_path)
    stopped = threading.Event()
    sizes: list[int] = []

    def read() -> None:
        while not stopped.is_set():
            sizes.append(len(hadoop.read(path)))

    with ThreadPoolExecutor(1) as pool:
        for number in range(1, ROUNDS):
            hadoop.write(path, b"old" * number)  # and its checksum
            stopped.clear()
            reader = pool.submit(read)
            while not sizes and not reader.done():
                time.sleep(0.001)
            asyncio.run(store.put("x", b"another" * number))
            stopped.set()
            reader.result()  # or the ChecksumException
            assert set(sizes) <= {3 * number, 7 * number}
            sizes.clear()
