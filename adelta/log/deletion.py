"""The one road on which clean-up and given-up transactions delete objects of a table.

It takes `Deletable` values alone, which only names of the protocol make; and the store deletes
regular objects below its root alone, following no link.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from adelta.kernel.deletable import Deletable
    from adelta.storage.object_store import ObjectStore, UnfinishedObject

__all__ = ["delete_objects"]


async def delete_objects(
    store: ObjectStore, objects: Iterable[Deletable | UnfinishedObject]
) -> None:
    """Delete objects at once, in no order; one that is not there is no error.

    Raises:
        OutsideRootError: a link is in the place of an object, or on the way to it.
        StorageError: the store refused or failed.
    """
    await store.delete([each.path for each in objects])
