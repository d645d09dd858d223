"""How bytes move: the port to object stores and its adapters. Knows nothing of Delta."""

from __future__ import annotations

from adelta.storage.addresses import is_absolute_uri, split_uri
from adelta.storage.object_store import ObjectMeta, ObjectStore, SuffixRead
from adelta.storage.resolve import open_store
from adelta.storage.stats import StoreStats

__all__ = [
    "ObjectMeta",
    "ObjectStore",
    "StoreStats",
    "SuffixRead",
    "is_absolute_uri",
    "open_store",
    "split_uri",
]
