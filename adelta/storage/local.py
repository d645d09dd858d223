"""Objects as files of a directory tree, through worker threads.

Guarantees beyond the port's, on a POSIX file system:

* An object appears under its name at once and whole: it is written to a hidden file in the same
  directory, synced, and then linked (`put_if_absent`) or renamed (`put`, `put_stream`); then the
  directory is synced, as were those above it. After a crash there is the whole object or none, and
  at worst a hidden file named ``.adelta-tmp-*``, which `list` leaves out.
* Nothing is written or deleted through a link below the root (`local_root` says how). Reading
  follows links.
* Hadoop's checksum file ``.NAME.crc`` is deleted before ``NAME`` is replaced, created or deleted,
  so that Spark can read the new ``NAME`` (`hadoop_checksums` says how).
* `list` follows the order of whole paths, not of directory entries: ``a-b`` comes before ``a/c``.
* Nothing is read that lies outside the root but for links, or below one of the roots that links may
  lead to; of directories elsewhere nothing is listed.
"""

from __future__ import annotations

import contextlib
import os
from functools import partial
from itertools import groupby, islice
from typing import TYPE_CHECKING
from urllib.parse import quote

from adelta._clock import monotonic
from adelta._concurrency import in_io_thread, map_concurrent, to_the_end
from adelta.errors import InvalidOptionError, ObjectNotFoundError, StorageError
from adelta.storage.hadoop_checksums import contradicts
from adelta.storage.links import LinkBounds
from adelta.storage.local_errors import regular, translate, translated
from adelta.storage.local_reading import (
    NO_OBJECT,
    READ,
    NoCopies,
    leads_nowhere,
    open_no_link,
    plain_suffix,
    read_at,
)
from adelta.storage.local_root import LocalRoot
from adelta.storage.local_writing import NewFile, meta_of, tag_of
from adelta.storage.object_path import check_path, check_prefix, check_range
from adelta.storage.object_store import (
    FolderPage,
    FoundFiles,
    ObjectStore,
    SuffixRead,
    UnfinishedObject,
)
from adelta.storage.pin import Pin, current_pin
from adelta.storage.unfinished_files import HIDDEN_PREFIX, is_hidden, is_left_behind

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Callable,
        Container,
        Generator,
        Iterable,
        Iterator,
        Sequence,
    )

    from adelta.storage.object_store import LocalFiles, ObjectMeta, WantsStatus

__all__ = ["LocalStore"]

_CONCURRENCY = 16
_FILES_PER_HOP = 128
_PATIENCE = 0.001  # seconds
_QUICK = 100e-6  # seconds a file; what is in memory takes a fifth of that
_DELETES_PER_HOP = 4096  # each directory of a batch is synced once
_PAGE = 1000
_FILES_A_PAGE = 4096
_BYTES_PER_HOP = 4 << 20
_DESCRIPTORS = "/proc/self/fd"
_NAMED = os.path.isdir(_DESCRIPTORS)  # on Linux
_ADVISE = hasattr(os, "posix_fadvise")  # not on macOS
_LOOK = getattr(os, "O_PATH", READ) | os.O_CLOEXEC  # which macOS lacks; nothing need be readable
_DIRECTORY = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY


class LocalStore(NoCopies, ObjectStore):
    """An `ObjectStore` over the directory `root`, which need not exist before the first put.

    Links in it may lead to places below it, and below the directories `linked`.

    Raises:
        InvalidOptionError: no directory can have that name, or the system is not a POSIX one.
    """

    def __init__(self, root: str | os.PathLike[str], linked: Sequence[str] = ()) -> None:
        self._below = LocalRoot(root)
        self._root = self._below.path
        self._linked = linked
        self._bounds = LinkBounds(self._root, linked)
        self._uri = "file://" + quote(self._root.rstrip("/"))

    def __repr__(self) -> str:
        return f"LocalStore({self._root!r})"

    @property
    def uri(self) -> str:
        """The root's address."""
        return self._uri

    def below(self, path: str) -> LocalStore:
        """A directory below the root. Raises: InvalidOptionError."""
        made = LocalStore(f"{self._root}/{check_path(path)}", self._linked)
        made.memory_limit, made.counter = self.memory_limit, self.counter
        return made

    @property
    def root(self) -> str:
        """The root's absolute path in the file system."""
        return self._root

    @property
    def concurrency(self) -> int:
        """How many worker threads wait for the file system at once."""
        return _CONCURRENCY

    @property
    def local(self) -> LocalFiles:
        """The objects as files."""
        return self

    async def has_root(self) -> bool:
        """Whether the directory is there."""
        return await in_io_thread(os.path.isdir, self._root)

    async def now_ms(self) -> int | None:
        """The time that a file gets that is written now, be the disk another machine's."""
        import tempfile

        def ask() -> int | None:
            try:
                with tempfile.TemporaryFile(dir=self._root, prefix=HIDDEN_PREFIX) as probe:
                    return os.fstat(probe.fileno()).st_mtime_ns // 1_000_000
            except OSError:  # what cannot be written to cannot be cleaned up either
                return None

        return await in_io_thread(ask)

    def _file(self, path: str) -> str:
        return self._below.file(check_path(path))

    @contextlib.contextmanager
    def _opened(
        self,
        file: str,
        flags: int = READ,
        directory: int | None = None,
        pin: Pin | None = None,
    ) -> Iterator[tuple[int, os.stat_result]]:
        """The open file and its status, as `_open` has them."""
        with translated(file):
            descriptor, status = self._open(file, flags, directory)
            try:
                if pin is not None:
                    pin.saw(file, tag_of(status))
                yield descriptor, status
            finally:
                os.close(descriptor)

    def _open(
        self, file: str, flags: int = READ, directory: int | None = None
    ) -> tuple[int, os.stat_result]:
        """The file, opened; with its open `directory`, what is no link need not be looked after.

        Raises:
            OSError: the system refused.
        """
        if not flags & os.O_DIRECTORY:
            self.counter.asked("head" if flags == _LOOK else "get")
        descriptor = open_no_link(file, flags, directory)
        linked = descriptor is None
        if descriptor is None:
            descriptor = os.open(file, flags)
        try:
            if linked:
                self._bounds.check(file, descriptor)
            status = os.fstat(descriptor)
            if not flags & os.O_DIRECTORY:
                regular(file, status)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor, status

    def _at(self, descriptor: int, offset: int, length: int) -> bytes:
        data = read_at(descriptor, offset, length)
        self.counter.received(len(data))
        return data

    def _read(self, file: str, directory: int | None = None) -> bytes:
        with translated(file):
            descriptor, status = self._open(file, directory=directory)
            try:
                return self._at(descriptor, 0, status.st_size)
            finally:
                os.close(descriptor)

    def _in_directories(
        self, files: Iterable[str]
    ) -> Generator[tuple[str, int | None], None, None]:
        """The files, each with its open directory, which is opened once for all that follow in it.

        None where it is not there.
        """
        for name, group in groupby(files, os.path.dirname):
            with contextlib.ExitStack() as stack:
                directory: int | None = None
                with contextlib.suppress(ObjectNotFoundError):  # which the file's own error says
                    directory, _ = stack.enter_context(self._opened(name, _DIRECTORY))
                for file in group:
                    yield file, directory

    def _read_all(self, files: Iterable[str]) -> Generator[bytes, None, None]:
        """The files' bytes in order."""
        with contextlib.closing(self._in_directories(files)) as found:
            for file, directory in found:
                yield self._read(file, directory)

    def _read_while_quick(self, files: Sequence[str]) -> list[bytes]:
        """The bytes of the first files, up to the one at which the disk has kept us waiting."""
        found: list[bytes] = []
        began = monotonic()
        with contextlib.closing(self._read_all(files)) as bodies:
            for data in bodies:
                found.append(data)
                if monotonic() - began > _PATIENCE + len(found) * _QUICK:
                    break
        return found

    async def get(self, path: str) -> bytes:
        """The whole object. Raises: ObjectNotFoundError."""
        return await in_io_thread(self._read, self._file(path))

    async def get_with_meta(self, path: str) -> tuple[bytes, ObjectMeta]:
        """The whole object, and what its open file says of it. Raises: ObjectNotFoundError."""
        file = self._file(path)

        def read() -> tuple[bytes, ObjectMeta]:
            with self._opened(file) as (descriptor, status):
                return self._at(descriptor, 0, status.st_size), meta_of(path, status)

        return await in_io_thread(read)

    async def get_many(self, paths: Sequence[str]) -> list[bytes]:
        """Whole objects, in the order asked. Raises: ObjectNotFoundError.

        One thread reads what the system has in memory: several would wait for the interpreter's
        lock, and take twice as long. Once the disk keeps it waiting, many threads wait for it.
        """
        files = [self._file(path) for path in paths]
        found: list[bytes] = []
        while len(found) < len(files):
            some = files[len(found) : len(found) + _FILES_PER_HOP]
            quick = await in_io_thread(self._read_while_quick, some)
            found += quick
            if len(quick) < len(some):
                break
        left = files[len(found) :]
        step = max(1, min(_FILES_PER_HOP, -(-len(left) // _CONCURRENCY)))
        batches = [left[at : at + step] for at in range(0, len(left), step)]

        async def read(batch: list[str]) -> list[bytes]:
            return await in_io_thread(lambda: list(self._read_all(batch)))

        for bodies in await map_concurrent(read, batches, limit=_CONCURRENCY):
            found += bodies
        return found

    async def get_range(self, path: str, start: int, end: int) -> bytes:
        """Bytes ``[start, end)``. Raises: ObjectNotFoundError, ObjectChangedError."""
        return (await self.get_ranges(path, [(start, end)]))[0]

    async def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Bytes of every range, from one open file, in the order asked."""
        for start, end in ranges:
            check_range(path, start, end)
        if not ranges:
            return []
        return await in_io_thread(partial(self.read_ranges, path, ranges, pin=current_pin()))

    def read_ranges(
        self, path: str, ranges: Sequence[tuple[int, int]], *, pin: Pin | None = None
    ) -> list[bytes]:
        """As `get_ranges`, for a worker thread that goes on with what it reads."""
        with self._opened(self._file(path), pin=pin) as (descriptor, status):
            return [self._at(descriptor, at, min(end, status.st_size) - at) for at, end in ranges]

    async def get_suffix(self, path: str, length: int) -> SuffixRead:
        """The last `length` bytes. Raises: ObjectNotFoundError, ObjectChangedError."""
        return await in_io_thread(partial(self.read_suffix, path, length, pin=current_pin()))

    def read_suffix(self, path: str, length: int, *, pin: Pin | None = None) -> SuffixRead:
        """As `get_suffix`, for a worker thread that goes on with what it reads."""
        if length < 1:
            raise InvalidOptionError(f"the last {length} bytes of {path!r} are no bytes")
        with self._opened(self._file(path), pin=pin) as (descriptor, status):
            return self._suffix(descriptor, status, length)

    def read_suffixes(self, paths: Sequence[str], length: int) -> Iterator[SuffixRead]:
        """As `read_suffix` of each; a directory is opened once for all that follow in it."""
        if length < 1:
            raise InvalidOptionError(f"the last {length} bytes of objects are no bytes")
        with contextlib.closing(self._in_directories(map(self._file, paths))) as files:
            for file, directory in files:
                plain = None if directory is None else plain_suffix(directory, file, length)
                if plain is not None:
                    self.counter.asked("get")
                    self.counter.received(len(plain[0]))
                    yield SuffixRead(*plain)
                    continue
                with self._opened(file, directory=directory) as (descriptor, status):
                    found = self._suffix(descriptor, status, length)
                yield found

    def _suffix(self, descriptor: int, status: os.stat_result, length: int) -> SuffixRead:
        start = max(0, status.st_size - length)
        return SuffixRead(self._at(descriptor, start, status.st_size - start), status.st_size)

    @contextlib.contextmanager
    def file_to_read(
        self, path: str, ranges: Sequence[tuple[int, int]] = (), *, pin: Pin | None = None
    ) -> Iterator[bytes]:
        """A name of the object's file, for a worker thread that reads `ranges` of it by itself.

        The system begins at once to read the ranges from the disk. Where the system has one, the
        name is of the open file, whatever becomes of the object's own name. Raises:
        ObjectNotFoundError, ObjectChangedError.
        """
        file = self._file(path)
        pin = pin or Pin()
        with self._opened(file, pin=pin) as (descriptor, _):
            if _ADVISE:
                for start, end in ranges:
                    os.posix_fadvise(descriptor, start, end - start, os.POSIX_FADV_WILLNEED)
            self.counter.received(sum(end - start for start, end in ranges))
            yield os.fsencode(f"{_DESCRIPTORS}/{descriptor}" if _NAMED else file)
            pin.saw(file, tag_of(os.fstat(descriptor) if _NAMED else os.stat(file)))

    async def head(self, path: str) -> ObjectMeta:
        """What the file system says of the file. Raises: ObjectNotFoundError."""
        file = self._file(path)

        def look() -> ObjectMeta:
            with self._opened(file, _LOOK) as (_, status):
                return meta_of(path, status)

        return await in_io_thread(look)

    async def put(self, path: str, data: bytes) -> ObjectMeta:
        """Create or replace the object."""
        new = NewFile(self._below, check_path(path))
        self.counter.asked("put", written=len(data))

        def write() -> ObjectMeta:
            with contextlib.closing(new):
                new.open()
                return new.replace([data])

        return await in_io_thread(write)

    async def put_if_absent(self, path: str, data: bytes) -> ObjectMeta:
        """Create the object.

        Raises:
            ObjectExistsError: another is there.
            CommitNotDurableError: it is there now, and may be gone after a crash.
            CommitOutcomeUnknownError: the file system does not say whether it is there.
            StorageError: the file system refused; certainly it was not created.
        """
        new = NewFile(self._below, check_path(path))
        self.counter.asked("put", written=len(data))

        def write() -> ObjectMeta:
            with contextlib.closing(new):
                new.open(absent=True)
                return new.create([data])

        return await in_io_thread(write)

    async def put_stream(self, path: str, chunks: AsyncIterator[bytes]) -> ObjectMeta:
        """Create or replace the object from its pieces, one write for many small ones."""
        new = NewFile(self._below, check_path(path))
        self.counter.asked("put")
        try:
            await in_io_thread(new.open)
            waiting: list[bytes] = []
            size = 0
            async for chunk in chunks:
                waiting.append(chunk)
                size += len(chunk)
                self.counter.wrote(len(chunk))
                if size >= _BYTES_PER_HOP:
                    await in_io_thread(new.write, waiting)
                    waiting, size = [], 0
            return await in_io_thread(new.replace, waiting)
        finally:
            await to_the_end(in_io_thread(new.close))  # also where it is cancelled once more

    async def delete(self, paths: Iterable[str]) -> None:
        """Delete every file; one that is not there is no error, and directories stay.

        All of it is tried before an error is raised. One thread does it: the system lets one at a
        time change a directory, and others would wait for it, and for the interpreter's lock. Once
        the disk keeps it waiting, many threads wait for it.

        Raises:
            OutsideRootError: it is a link, a device or a pipe, or lies behind a link.
            StorageError: the file system refused.
        """
        doomed = sorted(check_path(path) for path in paths)
        self.counter.asked("delete", times=len(doomed))
        failures: list[StorageError] = []

        def removed(batch: list[str]) -> bool:
            began = monotonic()
            try:
                self._below.remove(batch)
            except StorageError as error:
                failures.append(error)
            return monotonic() - began <= _PATIENCE + len(batch) * _QUICK

        async def remove(batch: list[str]) -> bool:
            return await in_io_thread(removed, batch)

        done, step, is_quick = 0, _FILES_PER_HOP, True
        while done < len(doomed) and is_quick:
            is_quick = await remove(doomed[done : done + step])
            done, step = done + step, _DELETES_PER_HOP
        left = doomed[done:]
        step = max(_FILES_PER_HOP, min(_DELETES_PER_HOP, len(left) // _CONCURRENCY))
        batches = [left[at : at + step] for at in range(0, len(left), step)]
        await map_concurrent(remove, batches, limit=_CONCURRENCY)
        if failures:
            raise failures[0]

    async def list(
        self, prefix: str = "", *, start_after: str | None = None, recursive: bool = True
    ) -> AsyncGenerator[list[ObjectMeta], None]:
        """Pages of the files whose path starts with `prefix`, in order."""
        found = self._walk(check_prefix(prefix), start_after or "", recursive)
        self.counter.asked("list")
        while page := await in_io_thread(lambda: list(islice(found, _PAGE))):
            yield page
            self.counter.asked("list")

    async def list_folder(
        self, prefix: str = "", *, start_after: str | None = None
    ) -> AsyncGenerator[FolderPage, None]:
        """One page of what lies directly below `prefix`."""
        check_prefix(prefix)
        self.counter.asked("list")
        yield await in_io_thread(self._folder, prefix, start_after or "")

    def _folder(self, prefix: str, after: str) -> FolderPage:
        directory, _, start = prefix.rpartition("/")
        objects: list[ObjectMeta] = []
        folders: list[str] = []
        for path, is_directory in self._entries(f"{directory}/" if directory else "", start, True):
            if is_directory:
                folders.append(path)
            elif path > after and (status := _status(f"{self._root}/{path}")) is not None:
                objects.append(meta_of(path, status))
        return FolderPage(objects, folders)

    async def list_unfinished(self, directory: str) -> tuple[UnfinishedObject, ...]:
        """Hidden files of interrupted or running puts below a directory.

        Hadoop's checksum files whose file is missing are among them. Raises: OutsideRootError,
        StorageError.
        """
        return await in_io_thread(self._below.find, directory.rstrip("/"), is_left_behind)

    async def list_wrong_checksums(self, directory: str) -> tuple[UnfinishedObject, ...]:
        """Hadoop's checksum files below a directory that do not match their files. Reads the files.

        Raises: OutsideRootError, StorageError.
        """
        return await in_io_thread(self._below.find, directory.rstrip("/"), contradicts)

    def own_files(
        self,
        hides: Callable[[str], bool],
        wants: WantsStatus | None = None,
    ) -> Iterator[FoundFiles]:
        """Pages of the regular files below the root, in order, for a worker thread.

        Links are passed over, and so is what is below a name that `hides` is true for. `wants` says
        for which paths of many the file system is asked for size and time; others may have none.

        Raises:
            StorageError: the file system refused.
        """
        with contextlib.suppress(ObjectNotFoundError), translated(self._root):
            waiting: list[tuple[str, os.stat_result | None]] = []
            for page in self._below.files(hides, wants):
                waiting += page
                if len(waiting) >= _FILES_A_PAGE:
                    yield _found_files(waiting)
                    waiting = []
            if waiting:
                yield _found_files(waiting)

    async def remove_empty_directories(
        self, hides: Callable[[str], bool], *, older_than_ms: int, emptied: Container[str]
    ) -> int:
        """Delete empty directories that have not changed since a time; how many there were.

        The time does not count for those in `emptied`, whose paths end in ``/``. Before that,
        hidden files of interrupted writes, and Hadoop's checksum files whose file is missing, are
        deleted if they have not changed since that time.

        Raises:
            StorageError: the file system refused.
        """

        def remove() -> int:
            with translated(self._root):
                return self._below.prune(hides, older_than_ms=older_than_ms, emptied=emptied)

        return await in_io_thread(remove)

    def _walk(self, prefix: str, after: str, recursive: bool) -> Iterator[ObjectMeta]:
        directory, _, start = prefix.rpartition("/")
        stack = [self._entries(f"{directory}/" if directory else "", start, recursive)]
        while stack:
            entry = next(stack[-1], None)
            if entry is None:
                stack.pop()
                continue
            path, is_directory = entry
            if is_directory:
                if path > after or after.startswith(path):
                    stack.append(self._entries(path, "", recursive))
            elif path > after and (status := _status(f"{self._root}/{path}")) is not None:
                yield meta_of(path, status)

    def _entries(self, directory: str, start: str, recursive: bool) -> Iterator[tuple[str, bool]]:
        """The entries of one directory as (path, is a directory), in the order of whole paths."""
        names: list[tuple[str, bool]] = []
        full = f"{self._root}/{directory}"
        try:
            with self._opened(full, _DIRECTORY) as (descriptor, _), os.scandir(descriptor) as found:
                for entry in found:
                    name = entry.name
                    if not name.startswith(start) or is_hidden(name):
                        continue
                    if leads_nowhere(entry):
                        continue
                    if entry.is_dir():
                        if recursive and self._is_within(full, entry):
                            names.append((f"{directory}{name}/", True))
                    elif entry.is_file():
                        names.append((directory + name, False))
        except ObjectNotFoundError:
            pass
        names.sort()
        return iter(names)

    def _is_within(self, parent: str, entry: os.DirEntry[str]) -> bool:
        """Whether a directory is there itself, or linked from where no circle comes of it."""
        if not entry.is_symlink():
            return True
        target = os.path.realpath(parent + entry.name)
        circle = f"{os.path.realpath(parent)}/".startswith(f"{target.rstrip('/')}/")
        return not circle and self._bounds.holds(target)


def _found_files(files: Sequence[tuple[str, os.stat_result | None]]) -> FoundFiles:
    return FoundFiles(
        [path for path, _ in files],
        [None if status is None else status.st_size for _, status in files],
        [None if status is None else status.st_mtime_ns // 1_000_000 for _, status in files],
    )


def _status(file: str) -> os.stat_result | None:
    """The status of a file; None where it is gone since its directory was read."""
    try:
        return os.stat(file)
    except OSError as error:
        if error.errno in NO_OBJECT:
            return None
        raise translate(error, file) from error
