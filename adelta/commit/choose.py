"""Who claims a table's versions: chosen by the storage options, and never anything else instead.

It is put-if-absent on the table's own store, unless an option chooses something else:

* ``aws_s3_locking_provider=dynamodb``, for a table in S3: entries in a DynamoDB table, which Delta
  Spark's S3DynamoDBLogStore and delta-rs up to 1.5 share. `parse_dynamo_options` knows the further
  options; with ``delta_dynamo_table_path`` entries are under that path, whatever the table's own
  address is.
* ``adelta_commit_lock=postgresql://user:password@host/database``: a lock in a PostgreSQL server.
* ``unsafe_single_writer=true``, which delta-rs calls ``aws_s3_allow_unsafe_rename``: nothing, where
  the store has no conditional puts. The user vouches for there being one writer alone.

A store that has no conditional puts, as the option ``aws_conditional_put=disabled`` says, and for
which nothing is chosen, can only be read. Of a table in S3 options may be environment variables, in
capitals; `ADELTA_UNSAFE_SINGLE_WRITER` is one.

Of a table that has a commit owner it is the owner who decides, whatever the options say, through
the client that is found by the owner's name in the table, or given where a catalog is the owner;
and no such table is ever committed to without one. The commit by which the owner changes is
claimed through both.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import orjson

from adelta.commit.check_then_put import check_then_put
from adelta.commit.coordinated_store import CoordinatedStore
from adelta.commit.filesystem import FilesystemCoordinator
from adelta.commit.ownable_store import OwnableStore
from adelta.commit.owned_store import OwnedStore
from adelta.errors import InvalidOptionError, InvalidUseError
from adelta.kernel.table_features import CATALOG_MANAGED
from adelta.storage.given_options import GivenOptions
from adelta.storage.providers import provider_of
from adelta.storage.resolve import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.commit.catalog import CatalogClient
    from adelta.commit.coordinator import CommitCoordinator
    from adelta.commit.filesystem import Create
    from adelta.commit.owner import CommitOwnerClient
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.storage.object_store import ObjectStore

__all__ = [
    "UNSAFE_SINGLE_WRITER",
    "check_catalog_needed",
    "check_client",
    "check_maintenance",
    "conf_for_owner",
    "coordinator_of",
    "filesystem_of",
    "may_be_stale",
    "named_owner_of",
    "open_log_store",
    "owned_of",
    "owner_publishes",
    "permits_maintenance",
    "publish",
    "published_version",
    "with_owner",
]

UNSAFE_SINGLE_WRITER = "unsafe_single_writer"


def check_client(catalog: object) -> None:
    """Refuse what is no client of a catalog.

    Raises:
        InvalidOptionError: it lacks one of a client's members.
    """
    asks = ("get_ratified_commits", "get_commits")  # a catalog's, or any commit owner's
    members = (*filter(lambda m: hasattr(catalog, m), asks), "commit", "aclose")
    given = len(members) > 2 and all(callable(getattr(catalog, m, None)) for m in members)
    if catalog is not None and not given:
        raise InvalidOptionError(
            f"catalog is {catalog!r:.100}, which is no client of a catalog; pass an object with "
            "the members of adelta.CatalogClient"
        )


def open_log_store(
    uri: str,
    storage_options: Mapping[str, str] | None = None,
    catalog: CatalogClient | CommitOwnerClient | None = None,
    *,
    store: ObjectStore | None = None,
) -> ObjectStore:
    """The store of the table at `uri`, with the coordinator that the options choose. No I/O.

    With `catalog` it is the table that this client is for. `store` is that of the address, where it
    has been opened already.

    Raises:
        InvalidOptionError: the scheme or an option is unknown, or an option has a value that is not
            allowed.
    """
    options = storage_options or {}
    if store is None:
        store = open_store(uri, options)
    provider = provider_of(store.uri)
    given = GivenOptions(options, None if provider.reads_environment else {})
    conditional = provider.has_conditional_puts(options)
    create = store.put_if_absent if conditional else partial(check_then_put, store)
    if catalog is not None:
        from adelta.commit.catalog_store import catalog_store

        return catalog_store(store, catalog, create, conditional_put=conditional)
    plain = _on_filesystem(store, create, given, options, conditional=conditional)
    return OwnableStore(plain, store, create, options, conditional_put=conditional)


def with_owner(
    store: ObjectStore, catalog: CatalogClient | CommitOwnerClient | None
) -> ObjectStore:
    """A store that is open already as `open_log_store` makes one of a table in it."""
    if catalog is not None:
        from adelta.commit.catalog_store import catalog_store

        return catalog_store(store, catalog, store.put_if_absent)
    if isinstance(store, CoordinatedStore | OwnableStore):
        return store
    return OwnableStore(store, store, store.put_if_absent, {}, conditional_put=True)


def _on_filesystem(
    store: ObjectStore,
    create: Create,
    given: GivenOptions,
    options: Mapping[str, str],
    *,
    conditional: bool,
) -> ObjectStore:
    """The store of a table on whose commits the filesystem decides."""
    by_dynamodb = (
        provider_of(store.uri).locks_by_dynamodb
        and (given.text("s3_locking_provider") or "").lower() == "dynamodb"
    )
    if lock := given.text("adelta_commit_lock"):
        if by_dynamodb:
            raise InvalidOptionError(
                "aws_s3_locking_provider=dynamodb and adelta_commit_lock are two ways to keep "
                "writers apart: set the one that all writers of the table use"
            )
        from adelta.commit.postgresql import PostgresCoordinator

        under_lock = PostgresCoordinator(store, lock, conditional_put=conditional)
        return CoordinatedStore(store, under_lock, conditional_put=conditional)
    if by_dynamodb:
        by_entries = _by_dynamodb(store, create, given, options)
        return CoordinatedStore(store, by_entries, conditional_put=conditional)
    if conditional:
        return store
    unsafe = given.flag(
        UNSAFE_SINGLE_WRITER, f"adelta_{UNSAFE_SINGLE_WRITER}", "s3_allow_unsafe_rename"
    )
    alone = FilesystemCoordinator(store, create) if unsafe else None
    return CoordinatedStore(store, alone, conditional_put=False)


def _by_dynamodb(
    store: ObjectStore, create: Create, given: GivenOptions, options: Mapping[str, str]
) -> CommitCoordinator:
    from adelta.commit.dynamodb import DynamoDbCoordinator
    from adelta.storage.dynamodb import DynamoTable
    from adelta.storage.dynamodb_options import parse_dynamo_options

    table = DynamoTable(parse_dynamo_options(options), partition="tablePath", sort="fileName")
    path = given.text("delta_dynamo_table_path")
    return DynamoDbCoordinator(
        store, table, create=create, table_path=None if path is None else path.rstrip("/")
    )


def coordinator_of(
    store: ObjectStore,
    configuration: TableConfiguration | None = None,
    after: TableConfiguration | None = None,
) -> CommitCoordinator:
    """Who claims the versions of the table in `store`, which is as `configuration` says.

    With `after` it is who claims the version that makes the table be like that; then there is no
    table yet where there is no `configuration`.

    Raises:
        InvalidOptionError: the store cannot exclude writers, and no option says what does; or the
            table has a commit owner, and the handle has no client for it, or the reverse.
    """
    before = _claims(store, configuration, after)
    if after is None:
        return before
    managed = None if configuration is None else configuration.management
    if after.management == managed:
        return before
    coming = None
    if after.management is not None and after.management.owner is not None:
        coming = _ownable(store, after).owned_by(after).client
    elif after.management is not None:
        return before  # a catalog learns of the table when there is one
    from adelta.commit.owner_change import OwnerChange

    return OwnerChange(store, before, coming)


async def conf_for_owner(
    store: ObjectStore, before: TableConfiguration | None, after: TableConfiguration
) -> Mapping[str, str]:
    """The properties that the owner which comes with a change wants the table to keep for it.

    Raises:
        InvalidOptionError: no such owner is known.
        AdeltaError: the owner refused or failed.
    """
    management = after.management
    if management is None or management.kind.table_conf_key is None or management.table_conf:
        return {}
    if before is not None and before.management == management:
        return {}
    conf = await _ownable(store, after).owned_by(after).client.table_conf()
    key = management.kind.table_conf_key
    return {key: orjson.dumps(dict(conf)).decode()} if conf else {}


def _claims(
    store: ObjectStore,
    configuration: TableConfiguration | None,
    after: TableConfiguration | None,
) -> CommitCoordinator:
    """Who claims versions of a table that is as `configuration` says."""
    if configuration is not None:
        _check_catalog(store, configuration)
        management = configuration.management
        if management is not None and management.owner is not None:
            return _ownable(store, configuration).owned_by(configuration).claims
    elif after is not None:
        _check_catalog(store, after)
    if isinstance(store, OwnableStore):
        return store.on_filesystem
    if isinstance(store, CoordinatedStore):
        return store.coordinator
    return FilesystemCoordinator(store)


def _ownable(store: ObjectStore, configuration: TableConfiguration) -> OwnableStore:
    if isinstance(store, OwnableStore):
        return store
    management = configuration.management
    assert management is not None
    raise InvalidOptionError(
        f"{store.uri} has the commit owner {management.owner!r:.100}, which the table names; leave "
        "catalog= out"
    )


def _check_catalog(store: ObjectStore, configuration: TableConfiguration) -> None:
    management = configuration.management
    by_catalog = management is not None and management.owner is None
    if by_catalog and not isinstance(store, OwnedStore):
        raise InvalidOptionError(
            f"{store.uri} is managed by a catalog, which alone decides on its commits: pass the "
            "catalog's client for this table, as open_table(uri, catalog=client)"
        )
    check_catalog_needed(store, configuration)


def check_catalog_needed(store: ObjectStore, configuration: TableConfiguration) -> None:
    """Refuse a catalog's client for a table that no catalog manages.

    Raises:
        InvalidOptionError: it is one.
    """
    if isinstance(store, OwnedStore) and not configuration.supports(CATALOG_MANAGED):
        raise InvalidOptionError(
            f"{store.uri} is not managed by a catalog: its protocol lacks catalogManaged. Leave "
            "catalog= out"
        )


def _owned(store: ObjectStore, configuration: TableConfiguration) -> OwnedStore:
    """The table as its owner has it.

    Raises:
        InvalidOptionError: the handle has no client for its owner.
    """
    _check_catalog(store, configuration)
    if isinstance(store, OwnedStore):
        return store
    return _ownable(store, configuration).owned_by(configuration)


def filesystem_of(store: ObjectStore) -> ObjectStore:
    """The table as the filesystem has it, whoever decides on its commits.

    Raises:
        InvalidUseError: the table is open as its catalog has it.
    """
    if isinstance(store, OwnableStore):
        return store.plain
    if isinstance(store, OwnedStore):
        raise InvalidUseError(f"{store.uri} is open as its catalog has it; open it without that")
    return store


def named_owner_of(store: ObjectStore, configuration: TableConfiguration) -> CommitOwnerClient:
    """The client of the owner that the table names, whether that owns it or not.

    Raises:
        InvalidUseError: it names none.
        InvalidOptionError: nothing here speaks to it.
    """
    management = configuration.management
    if management is None or management.owner is None:
        by = "is managed by a catalog" if management else "has no owner"
        raise InvalidUseError(f"{store.uri} {by}: it names no commit owner in its properties")
    return _ownable(store, configuration).owned_by(configuration).client


def owned_of(store: ObjectStore) -> OwnedStore | None:
    """The table as its owner has it; None where the filesystem decides, or is all that is seen."""
    if isinstance(store, OwnableStore):
        return store.owned
    return store if isinstance(store, OwnedStore) else None


def may_be_stale(store: ObjectStore, configuration: TableConfiguration) -> bool:
    """Whether the table has an owner that is not asked, and may have later versions than seen."""
    if configuration.management is None:
        return False
    return not isinstance(store.inner if isinstance(store, OwnableStore) else store, OwnedStore)


def owner_publishes(store: ObjectStore, configuration: TableConfiguration) -> bool:
    """Whether the owner of the table publishes commits by itself.

    Raises:
        InvalidOptionError: the handle has no client for its owner.
    """
    managed = configuration.management is not None
    return managed and _owned(store, configuration).client.backfills


async def publish(store: ObjectStore, configuration: TableConfiguration) -> None:
    """Let the log itself show every commit: what an owner has ratified is copied there.

    Checkpoints and log compactions may be written afterwards. Other tables need nothing.

    Raises:
        InvalidOptionError: the table has an owner, and the handle has no client for it.
        StorageError: a commit could not be published.
    """
    if configuration.management is not None:
        await _owned(store, configuration).claims.recover()


async def published_version(
    store: ObjectStore, configuration: TableConfiguration, latest: int
) -> int:
    """The last version up to `latest` which the log shows by itself, by what the owner says now.

    Raises:
        InvalidOptionError: the table has an owner, and the handle has no client for it.
        StorageError: the owner refused or failed.
    """
    if configuration.management is None:
        return latest
    told = await _owned(store, configuration).client.get_commits(end_version=latest)
    return min(told.commits[0].version - 1, latest) if told.commits else latest


def permits_maintenance(store: ObjectStore, configuration: TableConfiguration) -> bool:
    """Whether the table may be tidied up: a catalog has to permit that of its tables.

    Of a table whose owner is not asked the latest version is not known, and nothing may go.
    """
    management = configuration.management
    if management is None:
        return True
    if may_be_stale(store, configuration):
        return False
    owned = _owned(store, configuration)
    return management.kind.permits_maintenance or owned.client.permits_maintenance


def check_maintenance(store: ObjectStore, configuration: TableConfiguration) -> None:
    """Refuse to delete from a table, or to lay it out anew, where its owner does not permit that.

    Raises:
        InvalidOptionError: the table has an owner, and the handle has no client for it.
        InvalidUseError: the owner does not permit it.
    """
    if configuration.management is not None:
        _owned(store, configuration)
    if not permits_maintenance(store, configuration):
        raise InvalidUseError(
            f"{store.uri} is managed by a catalog that does not permit its clients to clean it up "
            "or to lay it out anew; let the catalog do that"
        )
