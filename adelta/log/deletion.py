"""The one road on which clean-up and given-up transactions delete objects of a table.

It takes `Deletable` values alone, which only names of the protocol make; and the store deletes
regular objects below its root alone, following no link.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.errors import OutsideRootError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from adelta.kernel.deletable import Deletable
    from adelta.progress import Meter
    from adelta.storage.object_store import ObjectStore, UnfinishedObject

__all__ = ["delete_objects"]

_AT_ONCE = 10_000  # between two times that a meter is told


async def delete_objects(
    store: ObjectStore,
    objects: Iterable[Deletable | UnfinishedObject],
    meter: Meter | None = None,
) -> None:
    """Delete objects, in no order; one that is not there is no error. `meter` is told of them.

    Raises:
        OutsideRootError: a link is in the place of an object, or on the way to it.
        StorageError: the store refused or failed.
    """
    paths = [each.path for each in objects]
    if meter is None:
        await store.delete(paths)
        return
    refused: OutsideRootError | None = None
    for start in range(0, len(paths), _AT_ONCE):
        some = paths[start : start + _AT_ONCE]
        try:
            await store.delete(some)
        except OutsideRootError as error:  # all others of them have gone
            refused = refused or error
        meter.advance(len(some))
    if refused is not None:
        raise refused
