"""Holds: from which version on consumers still need a table's log, so that no clean-up takes it.

The table property `adelta.consumerHolds` names a folder below the table's root. Each consumer that
holds the log has one small file there, which it writes anew as it gets on: the version, and until
when that counts. A consumer that is gone for good lets go when that time has come. Clean-ups of
other programs know nothing of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from adelta.errors import InvalidTableError, ObjectNotFoundError, StorageError

if TYPE_CHECKING:
    from adelta.log.state import LogState
    from adelta.storage.object_store import ObjectStore

__all__ = ["drop_hold", "held_version", "put_hold"]

_ENDING = ".json"


async def put_hold(store: ObjectStore, folder: str, name: str, version: int, until_ms: int) -> None:
    """Keep the log from `version` on for the consumer `name`, until that time."""
    data = orjson.dumps({"version": version, "until": until_ms})
    await store.put(f"{folder}/{name}{_ENDING}", data)


async def drop_hold(store: ObjectStore, folder: str, name: str) -> None:
    """Keep nothing for the consumer `name` any more."""
    await store.delete([f"{folder}/{name}{_ENDING}"])


async def held_version(state: LogState, now_ms: int) -> int | None:
    """The oldest version that a consumer still needs; None where none holds the log.

    Raises:
        InvalidTableError: what a consumer has left is damaged.
        InvalidPropertyError: the table's property names no folder.
        StorageError: the store refused or failed, or denies a hold that it lists.
    """
    folder = state.configuration.properties.consumer_holds
    if folder is None:
        return None
    store = state.store
    held: list[int] = []
    denied: set[str] = set()
    for path in await _listed(store, folder):
        try:
            said = orjson.loads(await store.get(path))
            version, until_ms = said["version"], said["until"]
            if type(version) is not int or type(until_ms) is not int:
                raise ValueError("no whole numbers")
        except ObjectNotFoundError:
            denied.add(path)
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidTableError(
                f"{state.root}/{path}, by which a consumer holds the log, is damaged ({error!r}); "
                "let the consumer run, which writes it anew, or delete it"
            ) from error
        else:
            if until_ms > now_ms:
                held.append(version)
    if denied and denied.intersection(await _listed(store, folder)):  # it was not let go meanwhile
        raise StorageError(
            f"{state.root}: the store lists {min(denied)}, by which a consumer holds the log, and "
            "says that it is not there; look at the store, or try again"
        )
    return min(held, default=None)


async def _listed(store: ObjectStore, folder: str) -> list[str]:
    """The paths of all holds."""
    paths = [meta.path async for page in store.list(f"{folder}/") for meta in page]
    return [path for path in paths if path.endswith(_ENDING)]
