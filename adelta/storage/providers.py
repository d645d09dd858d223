"""Providers: the kinds of stores, each with what is particular to it.

Whoever opens a store, reads from it or commits to it asks here, by the scheme of an address; to add
a kind is to add it to `PROVIDERS`. The adapters are loaded when a store of theirs is opened.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from adelta.storage.addresses import Place
    from adelta.storage.object_store import ObjectStore

__all__ = ["LOCAL", "OPTION_PREFIXES", "PROVIDERS", "Provider", "provider_of", "scheme_of"]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+")


@dataclass(frozen=True, slots=True)
class Provider:
    """One kind of stores.

    Attributes:
        schemes: how its addresses begin; the first one stands for all.
        open: the store at an address, which was parsed as the place, with storage options.
        authority: what an address names between ``//`` and its path; empty where nothing.
        is_near: whether requests are answered at once, so that reading far ahead gains nothing.
        reads_environment: whether environment variables are options of it, too.
        option_prefixes: how the names of its options begin.
        key_option: an option that tells whose keys are used; None where there are no keys.
        locks_by_dynamodb: whether commits may be claimed by entries in DynamoDB.
        has_conditional_puts: whether it excludes writers by itself, with these options.
        accepts: whether an address of one of its schemes is one of its own.
        named: the scheme, authority and path of an address, which are the same for all spellings;
            None where these are as they are written.
    """

    schemes: tuple[str, ...]
    open: Callable[[str, Place, Mapping[str, str]], ObjectStore]
    authority: str = ""
    is_near: bool = False
    reads_environment: bool = False
    option_prefixes: tuple[str, ...] = ()
    key_option: str | None = None
    locks_by_dynamodb: bool = False
    has_conditional_puts: Callable[[Mapping[str, str]], bool] = lambda _: True
    accepts: Callable[[str], bool] = lambda _: True
    named: Callable[[str, str, str], tuple[str, str, str]] | None = None

    @property
    def scheme(self) -> str:
        """The scheme that stands for all of its schemes."""
        return self.schemes[0]


def _open_local(_: str, place: Place, options: Mapping[str, str]) -> ObjectStore:
    from adelta.storage.allowed_roots import local_roots
    from adelta.storage.local import LocalStore

    return LocalStore(f"/{place.path}", local_roots(options))


def _open_memory(_: str, place: Place, __: Mapping[str, str]) -> ObjectStore:
    from adelta.storage.memory import MemoryStore

    return MemoryStore(place.authority, place.path)


def _open_s3(address: str, place: Place, options: Mapping[str, str]) -> ObjectStore:
    from adelta.storage.s3 import S3Store

    scheme = address.partition(":")[0].lower()
    return S3Store.from_options(place.authority, place.path, options, scheme=scheme)


def _open_gcs(_: str, place: Place, options: Mapping[str, str]) -> ObjectStore:
    from adelta.storage.gcs import GcsStore

    return GcsStore.from_options(place.authority, place.path, options)


def _open_azure(_: str, place: Place, options: Mapping[str, str]) -> ObjectStore:
    from adelta.storage.azure import AzureStore

    return AzureStore.from_options(place.authority, place.path, options)


def _open_hdfs(address: str, place: Place, options: Mapping[str, str]) -> ObjectStore:
    from adelta.storage.hdfs import HdfsStore

    scheme = address.partition(":")[0].lower()
    return HdfsStore.from_options(place.authority, place.path, options, scheme=scheme)


def _named_in_hdfs(scheme: str, authority: str, path: str) -> tuple[str, str, str]:
    """The schemes lead to ports of their own, so that none stands for another."""
    return scheme, authority, path


def _is_azure(address: str) -> bool:
    """Whether an address is one of Azure's: not every one by ``https`` is."""
    scheme, _, rest = address.partition(":")
    host = rest.removeprefix("//").partition("/")[0]
    if scheme.lower() != "https":
        return True
    from adelta.storage.bucket_names import is_azures_host

    return is_azures_host(host)


def _named_in_azure(scheme: str, authority: str, path: str) -> tuple[str, str, str]:
    """The container is in the authority, and before its account's host where that is named."""
    if scheme == "https":
        if "sig=" in path.partition("?")[2]:
            raise InvalidOptionError(
                f"the address of {authority!r} has a shared access signature in it: leave off all "
                "from the ? on, and give that as the storage option azure_storage_sas_token"
            )
        container, _, path = path.partition("/")
        authority = f"{container}@{authority}"
    container, at, host = authority.partition("@")
    if not at:
        return "az", authority, path
    return "abfss", f"{container}@{host.lower().replace('.blob.', '.dfs.', 1)}", path


def _s3_has_conditional_puts(options: Mapping[str, str]) -> bool:
    from adelta.storage.s3_options import parse_options

    return parse_options(options).conditional_put


def _open_fsspec(address: str, _: Place, options: Mapping[str, str]) -> ObjectStore:
    from adelta.storage.fsspec_options import open_fsspec

    return open_fsspec(address, options)


LOCAL = Provider(("file",), _open_local, is_near=True)
"""Files of this machine. A path without a scheme is an address of it."""

PROVIDERS: tuple[Provider, ...] = (
    LOCAL,
    Provider(("memory",), _open_memory, authority="store", is_near=True),
    Provider(
        ("s3", "s3a"),
        _open_s3,
        authority="bucket",
        reads_environment=True,
        option_prefixes=("aws_", "s3_"),
        key_option="aws_access_key_id",
        locks_by_dynamodb=True,
        has_conditional_puts=_s3_has_conditional_puts,
    ),
    Provider(
        ("gs", "gcs"),
        _open_gcs,
        authority="bucket",
        reads_environment=True,
        option_prefixes=("google_",),
        key_option="google_service_account",
    ),
    Provider(
        ("az", "azure", "adl", "abfs", "abfss", "wasb", "wasbs", "https"),
        _open_azure,
        authority="container",
        reads_environment=True,
        option_prefixes=("azure_",),
        key_option="azure_storage_account_key",
        accepts=_is_azure,
        named=_named_in_azure,
    ),
    Provider(
        ("hdfs", "webhdfs", "swebhdfs"),
        _open_hdfs,
        authority="namenode",
        reads_environment=True,
        option_prefixes=("hdfs_", "hadoop_", "dfs."),
        key_option="hdfs_delegation_token",
        named=_named_in_hdfs,
    ),
)

_FSSPEC = Provider(
    ("fsspec",),
    _open_fsspec,
    authority="host or folder",
    has_conditional_puts=lambda _: False,
    named=lambda scheme, authority, path: (scheme, authority, path),
)
"""Whatever else fsspec has a file system for; its schemes are not known beforehand."""

OPTION_PREFIXES = tuple(prefix for each in PROVIDERS for prefix in each.option_prefixes)
"""How the names of options of any provider begin."""

_BY_SCHEME = {scheme: each for each in PROVIDERS for scheme in each.schemes}


def scheme_of(address: str) -> str | None:
    """The scheme of an address, as it is written; None of a path. It need not be known."""
    scheme, colon, rest = address.partition(":")
    return scheme if colon and rest.startswith("/") and _is_scheme(scheme) else None


def provider_of(address: str) -> Provider:
    """The provider of the store at an address: a path, or a URI of a scheme that is known.

    Raises:
        InvalidOptionError: the scheme is unknown.
    """
    scheme = scheme_of(address)
    if scheme is None:
        return LOCAL
    found = _BY_SCHEME.get(scheme.lower())
    if found is not None and found.accepts(address):
        return found
    from adelta.storage.fsspec_options import is_of_fsspec

    if is_of_fsspec(scheme.lower()):
        return _FSSPEC
    *supported, last = (f"{scheme}://" for scheme in _BY_SCHEME if scheme != "https")
    raise InvalidOptionError(
        f"{address!r} has an unknown scheme; supported are a local path, "
        f"{', '.join(supported)} and {last}, and file systems of fsspec"
    )


def _is_scheme(text: str) -> bool:
    """Whether it may be one; a single letter is a drive."""
    return _SCHEME.fullmatch(text) is not None
