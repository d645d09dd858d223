"""The store of a table that a catalog manages, whose client the user gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.commit.owned_store import owned_store
from adelta.kernel.table_features import CATALOG

if TYPE_CHECKING:
    from adelta.commit.catalog import CatalogClient
    from adelta.commit.filesystem import Create
    from adelta.commit.owned_store import OwnedStore
    from adelta.commit.owner import CommitOwnerClient
    from adelta.storage.object_store import ObjectStore

__all__ = ["catalog_store"]


def catalog_store(
    inner: ObjectStore,
    client: CatalogClient | CommitOwnerClient,
    create: Create,
    *,
    conditional_put: bool = True,
) -> OwnedStore:
    """The store `inner` of a table that a catalog manages, seen through the catalog's `client`.

    `create` is put-if-absent on `inner`, or the best that there is.
    """
    return owned_store(inner, client, create, kind=CATALOG, conditional_put=conditional_put)
