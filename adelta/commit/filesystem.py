"""Commits by put-if-absent on the object store: whoever creates the file has the version.

An attempt whose answer was lost is cleared up by reading the file back. If it is there, its `txnId`
tells whose it is. If it is not there, the same bytes are put again: of two puts of one attempt at
most one can succeed, so repeating it is safe.

Whether the log has the version before is asked beside the put, which costs no time. Where it has
not, since the log was cleaned up, or the table dropped, made anew or restored, the file is taken
back before anybody is told of it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import anyio
import orjson

from adelta._clock import monotonic
from adelta._concurrency import together
from adelta.commit.check_then_put import is_shown
from adelta.commit.coordinator import (
    LOOK_HOLDS,
    CommitOutcome,
    Committed,
    Lost,
    Unknown,
    WithoutBase,
)
from adelta.errors import (
    CommitNotDurableError,
    CommitOutcomeUnknownError,
    InvalidOptionError,
    ObjectExistsError,
    ObjectNotFoundError,
    StorageError,
)
from adelta.kernel.actions.value_stream import json_values
from adelta.kernel.log_path import commit_path

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from adelta.commit.coordinator import HasBase
    from adelta.storage.object_store import ObjectMeta, ObjectStore

    Create = Callable[[str, bytes], Awaitable[ObjectMeta]]

__all__ = ["FilesystemCoordinator", "is_by"]

_PUTS = 3


class FilesystemCoordinator:
    """Claims versions in the `_delta_log` of the table at the root of `store`."""

    __slots__ = ("_create", "_store")

    def __init__(self, store: ObjectStore, create: Create | None = None) -> None:
        """Create files by `create`, which is put-if-absent unless something better is known."""
        self._store = store
        self._create = store.put_if_absent if create is None else create

    async def commit(
        self, version: int, data: bytes, transaction_id: str, has_base: HasBase | None = None
    ) -> CommitOutcome:
        """Try to create the commit file of `version`, behind a base that is there.

        Raises:
            StorageError: the store refused; certainly nothing was committed.
        """
        if has_base is None:
            return await self._claim(version, data, transaction_id)
        began = monotonic()
        base, outcome = await together(
            partial(_asked, has_base), partial(self._claim, version, data, transaction_id)
        )
        if not isinstance(outcome, Committed):
            return outcome
        late = monotonic() - began > LOOK_HOLDS
        if isinstance(base, Exception) or (base and late):
            base = await _asked(has_base)
        if isinstance(base, Exception):  # others may stand on it already, with good reason
            return Unknown(version, base)
        if base:
            return outcome
        taken_back = await self._take_back(version, data, transaction_id)
        if outcome.repeated and isinstance(taken_back, WithoutBase):
            error = StorageError("a request whose answer was lost may still put it there")
            return Unknown(version, error)
        return taken_back

    async def _take_back(self, version: int, data: bytes, transaction_id: str) -> CommitOutcome:
        """Delete our own commit file, of which nobody has been told, and on which none stands.

        Who reads it all the same, and goes behind it, looks for it again once that takes longer
        than `LOOK_HOLDS`. So it is put back where another stands behind it by then.
        """
        path, behind = commit_path(version), commit_path(version + 1)
        stands = StorageError(f"another commit stands behind {self._store.uri}/{path}")
        try:
            if await is_shown(self._store, behind):
                return Unknown(version, stands)
            if not is_by(await self._store.get(path), transaction_id):
                found = StorageError(f"{self._store.uri}/{path} does not hold what was put there")
                return Unknown(version, found)
            await self._store.delete([path])
            await anyio.sleep(LOOK_HOLDS)
            if await is_shown(self._store, behind):
                await self._create(path, data)
                return Unknown(version, stands)
        except Exception as error:
            return Unknown(version, error)
        return WithoutBase(version)

    async def _claim(self, version: int, data: bytes, transaction_id: str) -> CommitOutcome:
        """Try to create the commit file of `version`, whatever is before it.

        Raises:
            StorageError: the store refused; certainly nothing was written.
        """
        path = commit_path(version)
        doubt: CommitOutcomeUnknownError | None = None
        for _ in range(_PUTS):
            try:
                made = await self._create(path, data)
                repeated = doubt is not None or made.repeated
                return Committed(version, made.last_modified_ms, repeated=repeated)
            except ObjectExistsError as error:
                if doubt is None:
                    return Lost(version)
                return await self.whose(version, transaction_id) or Unknown(version, error)
            except CommitNotDurableError as error:
                return Unknown(version, error)  # it would be read back, and may be gone tomorrow
            except CommitOutcomeUnknownError as error:
                doubt = error
            except StorageError as error:  # this put failed; an earlier one may not have
                if doubt is None:
                    raise
                return await self.whose(version, transaction_id) or Unknown(version, error)
            except InvalidOptionError:  # nothing was sent off
                raise
            except Exception as error:  # lack of memory, say, at whatever moment
                return await self.whose(version, transaction_id) or Unknown(version, error)
            outcome = await self.whose(version, transaction_id)
            if outcome is not None:
                return outcome
        return Unknown(version, doubt or CommitOutcomeUnknownError())

    async def whose(self, version: int, transaction_id: str) -> CommitOutcome | None:
        """Whose the commit file is: ours or not, unknown, or None where there is none."""
        path = commit_path(version)
        try:
            found = await self._store.get(path)
            if not is_by(found, transaction_id):
                return Lost(version)
            return Committed(version, (await self._store.head(path)).last_modified_ms)
        except ObjectNotFoundError:
            return None
        except Exception as error:
            return Unknown(version, error)

    async def recover(self) -> int | None:
        """Nothing is ever half-done: the file is the commit."""
        return None

    async def aclose(self) -> None:
        """There is nothing to give back."""


async def _asked(has_base: HasBase) -> bool | Exception:
    """The answer, or why there is none: a look that fails says nothing of the put beside it."""
    try:
        return await has_base()
    except Exception as error:
        return error


def is_by(commit: bytes, transaction_id: str) -> bool:
    """Whether `transaction_id` made this commit; its `commitInfo` may be anywhere in the file."""
    named = transaction_id.encode()
    at = commit.find(named)
    if at < 0:
        return False
    end = commit.find(b"\n", at)
    line = commit[commit.rfind(b"\n", 0, at) + 1 : end if end >= 0 else None]
    values = (text for _, text in json_values(commit) if named in text)
    return _says(line, transaction_id) or any(_says(text, transaction_id) for text in values)


def _says(text: bytes, transaction_id: str) -> bool:
    try:
        action = orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    info = action.get("commitInfo") if isinstance(action, dict) else None
    return isinstance(info, dict) and info.get("txnId") == transaction_id
