"""Commits by entries in DynamoDB, as Delta Spark's S3DynamoDBLogStore and delta-rs make them.

A version is claimed by an entry of the lock table, put where there is none: its key is the table's
path and the name of the commit file, and it says where the commit's bytes lie (`tempPath`) and
whether they are in the log already (`complete`). A commit is made in four steps:

1. The log goes up to the version before, of the same table, and has nothing of this version. An
   entry of the version before that is not complete is completed first. No later step can be taken
   back, so that the base is asked for here, and not beside the put.
2. The bytes are put in `_delta_log/.tmp`, and the entry, not complete, is put. It is the commit.
3. The bytes are put in the log.
4. The entry is marked complete, with the second after which DynamoDB may delete it.

After step 2 nothing can undo the commit: whoever lists the log looks at the last entry first, and
does what is missing of steps 3 and 4.

Two things are stricter here than in the original. Step 3 is a conditional put wherever the store
has these, so that the commit of a writer who knows nothing of the entries is found out, and not
passed over. And the temporary file is deleted once its bytes are in the log.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from adelta._chance import new_uuid
from adelta._clock import SYSTEM_CLOCK
from adelta._concurrency import map_concurrent, together
from adelta.commit.check_then_put import is_there
from adelta.commit.coordinator import CommitOutcome, Committed, Lost, Unknown, WithoutBase
from adelta.commit.filesystem import FilesystemCoordinator
from adelta.commit.lock_entry import LockEntry
from adelta.errors import (
    AdeltaError,
    CommitOutcomeUnknownError,
    InvalidOptionError,
    InvalidTableError,
    MissingCommitError,
    ObjectExistsError,
    ObjectNotFoundError,
    PermissionDeniedError,
    StorageError,
)
from adelta.kernel.log_path import (
    LOG_DIR,
    LogFileKind,
    commit_path,
    commit_version,
    parse_log_path,
    version_prefix,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from adelta._clock import Clock
    from adelta.commit.coordinator import HasBase
    from adelta.commit.filesystem import Create
    from adelta.storage.dynamodb import DynamoTable, Item
    from adelta.storage.object_store import ObjectStore

__all__ = ["DynamoDbCoordinator"]

_log = logging.getLogger("adelta.commit.dynamodb")

_KEPT_SECONDS = 86_400  # an entry's, after its commit is in the log
_CLAIMS = 3
_REPAIRS = 4


class DynamoDbCoordinator:
    """Claims versions of the table in `store` by entries in `table`.

    Entries are found by the table's path with its scheme, and Spark's tables are at ``s3a://`` as
    often as at ``s3://``. So the path is the one that has entries, and the store's own address
    where there are none yet; or it is `table_path`.
    """

    def __init__(
        self,
        store: ObjectStore,
        table: DynamoTable,
        *,
        create: Create | None = None,
        table_path: str | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._store = store
        self._table = table
        self._create = store.put_if_absent if create is None else create
        self._in_log = FilesystemCoordinator(store, self._create)
        self._paths = _table_paths(store.uri) if table_path is None else (table_path,)
        self._clock = clock

    def __repr__(self) -> str:
        return f"DynamoDbCoordinator({self._store.uri!r}, {self._table!r})"

    # ----------------------------------------------------------------------------------- commit

    async def commit(
        self, version: int, data: bytes, transaction_id: str, has_base: HasBase | None = None
    ) -> CommitOutcome:
        """Try to make `data` the commit of `version`.

        Raises:
            InvalidTableError: the log and the lock table contradict each other.
            InvalidOptionError: the lock table has entries of the table under two paths.
            StorageError: store or DynamoDB refused; certainly nothing was committed.
        """
        path = await self._path_of_table()

        async def look_for_base() -> bool:
            return has_base is None or await has_base()

        is_next, follows = await together(partial(self._is_next, path, version), look_for_base)
        if not is_next:
            return Lost(version)
        if not follows:
            return WithoutBase(version)
        name = commit_path(version).removeprefix(LOG_DIR)
        entry = LockEntry(path, name, f".tmp/{name}.{new_uuid()}", complete=False)
        temporary = await self._store.put(entry.source, data)
        try:
            claimed = await self._claim(entry)
        except CommitOutcomeUnknownError as error:
            return Unknown(version, error)
        except AdeltaError:
            await self._discard(entry)
            raise
        if not claimed:
            await self._discard(entry)
            return Lost(version)
        return await self._put_in_log(entry, version, data, transaction_id) or Committed(
            version, temporary.last_modified_ms
        )

    async def _is_next(self, path: str, version: int) -> bool:
        """Whether `version` is free, and the version before is in the log.

        Raises:
            InvalidTableError: the version before is not there.
        """
        taken = False
        before: LockEntry | None = None
        log_goes_on = version == 0
        known = max(version - 1, 0)

        async def look_for_commit() -> None:
            nonlocal taken
            taken = await is_there(self._store, commit_path(version))

        async def look_before() -> None:
            nonlocal log_goes_on
            log_goes_on = version == 0 or await is_there(self._store, commit_path(known))

        async def look_for_entry() -> None:
            nonlocal before
            before = await self._entry(path, commit_path(known).removeprefix(LOG_DIR))

        looks: list[Callable[[], Awaitable[None]]] = [look_for_commit, look_before, look_for_entry]
        await together(*looks)
        if taken:
            return False
        if before is not None and version == 0 and before.complete:
            raise InvalidTableError(
                f"{self._store.uri} has no version 0, but the DynamoDB table {self._table.name} "
                f"has entries of an earlier table at {path}: delete these, and try again"
            )
        if before is not None and version > 0 and not before.complete:
            log_goes_on = await self._complete(before) or log_goes_on
        return log_goes_on or await self._ends_log(known)

    async def _ends_log(self, version: int) -> bool:
        """Whether `version` is the last of the log, by its checkpoint where that is cleaned up.

        Its commit may be there, too: a store denies by name, now and then, what it lists.

        Raises:
            MissingCommitError: the version has left no trace.
        """
        ends = False
        after = version_prefix(version)
        async for page in self._store.list(LOG_DIR, start_after=after, recursive=False):
            for meta in page:
                file = parse_log_path(meta.path)
                if file is None or file.kind is LogFileKind.CHECKSUM:
                    continue
                if file.version > version:
                    return False  # the log is further, and what we have read has been cleaned up
                ends = ends or file.is_checkpoint or file.kind is LogFileKind.COMMIT
        if not ends:
            raise MissingCommitError(
                f"{self._store.uri}: the commit of version {version} is missing, so that none "
                "can follow it; open the table again, or restore the file from a backup"
            )
        return True

    async def _claim(self, entry: LockEntry) -> bool:
        """Put the entry; False where another writer has the version.

        Raises:
            CommitOutcomeUnknownError: nobody can tell whether the entry was put.
            StorageError: DynamoDB refused; it was not put.
        """
        doubt: CommitOutcomeUnknownError | None = None
        for _ in range(_CLAIMS):
            try:
                if await self._table.put_new(entry.item):
                    return True
            except CommitOutcomeUnknownError as error:
                doubt = error
            except StorageError as error:
                if doubt is None:
                    raise
                raise CommitOutcomeUnknownError(str(error)) from doubt
            try:
                there = await self._entry(entry.table_path, entry.file_name)
            except StorageError as error:
                raise CommitOutcomeUnknownError(
                    f"DynamoDB does not say whose {entry.file_name} is: {error}"
                ) from error
            if there is not None:
                if there.temp_path == entry.temp_path:
                    return True
                if there.complete or await self._complete(there):
                    return False
            # There is no entry: ours did not arrive, or another writer has taken theirs away again.
        if doubt is not None:
            raise doubt
        return False

    async def _put_in_log(
        self, entry: LockEntry, version: int, data: bytes, transaction_id: str
    ) -> CommitOutcome | None:
        """Steps 3 and 4, in which nothing is fatal; None where the bytes are not in the log."""
        try:
            outcome = await self._in_log.commit(version, data, transaction_id)
            if isinstance(outcome, Lost):  # perhaps another process has put our bytes there
                found = await self._in_log.whose(version, transaction_id)
                outcome = found or Unknown(version, StorageError("it was there, and is no more"))
        except Exception as error:  # of whatever kind: the entry is the commit
            outcome = Unknown(version, error)
        if isinstance(outcome, Unknown):
            _log.info("%s is for others to put in the log: %s", entry.target, outcome.cause)
            return None
        done = (lambda: self._mark(entry), lambda: self._discard(entry))
        await together(*done)
        return outcome

    async def _mark(self, entry: LockEntry) -> None:
        with suppress(StorageError, CommitOutcomeUnknownError):  # whoever lists the log does it
            await self._mark_complete(entry)

    async def _discard(self, entry: LockEntry) -> None:
        """Delete the temporary file; one that stays does no harm."""
        with suppress(StorageError):
            await self._store.delete([entry.source])

    # ---------------------------------------------------------------------------------- recovery

    async def recover(self) -> int | None:
        """Complete the last entry, if it is not; its version.

        Raises:
            InvalidTableError: its bytes are nowhere.
            PermissionDeniedError: only those who may write to the table can complete it.
            StorageError: it cannot be completed.
        """
        last: int | None = None
        for entry in await self._last_entries():
            try:
                in_log = entry.complete or await self._complete(entry)
            except PermissionDeniedError as error:
                raise PermissionDeniedError(
                    f"{self._store.uri}: {entry.file_name} is committed, but the writer has not "
                    f"put it in the log, nor may you: let someone open the table who may write to "
                    f"it ({error})"
                ) from error
            version = commit_version(entry.target)
            if in_log and version is not None:
                last = version if last is None else max(last, version)
        return last

    async def _complete(self, entry: LockEntry) -> bool:
        """Put the bytes of another writer's entry in the log; False where it is no more.

        Raises:
            InvalidTableError: the bytes are nowhere.
            StorageError: store or DynamoDB refused.
        """
        failure: AdeltaError | None = None
        for _ in range(_REPAIRS):
            try:
                if not await is_there(self._store, entry.target):
                    await self._create(entry.target, await self._store.get(entry.source))
            except ObjectExistsError:
                pass
            except ObjectNotFoundError as error:
                # Another process has moved them, or the writer has taken theirs away.
                there = await self._entry(entry.table_path, entry.file_name)
                if there is None or there.temp_path != entry.temp_path:
                    return False
                failure = error
                continue
            except CommitOutcomeUnknownError as error:
                failure = error
                continue
            try:
                await self._mark_complete(entry)
            except (StorageError, CommitOutcomeUnknownError) as error:
                _log.info("%s is in the log, but not marked so: %s", entry.target, error)
            return True
        raise InvalidTableError(
            f"{self._store.uri}: DynamoDB says that {entry.file_name} is committed, but neither is "
            f"it in the log nor can it be put there from {entry.source}: {failure}. Restore one of "
            f"the two, or delete the entry from the table {self._table.name} and lose the commit"
        )

    async def _mark_complete(self, entry: LockEntry) -> None:
        item: Item = {
            "tablePath": entry.table_path,
            "fileName": entry.file_name,
            "complete": "true",
            "expireTime": self._clock.now_ms() // 1000 + _KEPT_SECONDS,
        }
        where: Item = {"complete": "false", "tempPath": entry.temp_path}
        await self._table.update(item, where=where)

    # ----------------------------------------------------------------------------------- entries

    async def _entry(self, path: str, file_name: str) -> LockEntry | None:
        item = await self._table.get(path, file_name)
        return None if item is None else LockEntry.of(item)

    async def _last_entries(self) -> list[LockEntry]:
        """The last entry under each of the paths that the table may have."""
        items = await map_concurrent(self._table.last, self._paths, limit=len(self._paths))
        entries = [LockEntry.of(item) for item in items if item is not None]
        if len(entries) == 1:
            self._paths = (entries[0].table_path,)
        return entries

    async def _path_of_table(self) -> str:
        """The path that entries are put under.

        Raises:
            InvalidOptionError: there are entries under both.
        """
        if len(self._paths) > 1:
            entries = await self._last_entries()
            if len(entries) > 1:
                raise InvalidOptionError(
                    f"the DynamoDB table {self._table.name} has entries of "
                    f"{' and of '.join(self._paths)}: writers who use different ones do not "
                    "exclude each other. Let all of them use one, and name it in the storage "
                    "option delta_dynamo_table_path"
                )
        return self._paths[0]

    async def aclose(self) -> None:
        """Give back the connections to DynamoDB. Calling it again does nothing."""
        await self._table.aclose()


def _table_paths(uri: str) -> tuple[str, ...]:
    """The table's own path, and the one that it has for those who use the other scheme."""
    scheme, _, rest = uri.partition("://")
    other = {"s3": "s3a", "s3a": "s3"}.get(scheme)
    return (uri,) if other is None else (uri, f"{other}://{rest}")
