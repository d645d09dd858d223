"""How many requests each verb costs: the same on all stores behind HTTP, but for what they lack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from adelta.storage.coalesce import LARGEST_FETCH
from tests.storage.object_store_suite import paths_of, pieces

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["RequestCounts"]

_MEGABYTE = bytes(1 << 20)
_LONG = 16 << 20

_COSTS: Mapping[str, int] = {
    "a put": 1,
    "a commit": 1,
    "a get": 1,
    "a range": 1,
    "an empty range": 0,
    "the end": 1,
    "a head": 1,
    "three objects": 3,
    "a short stream": 1,
    "a stream of 8 MiB": 1,
    "a stream of 20 MiB": 5,  # its begin, three parts, its end
    "near ranges": 1,
    "far ranges": 2,
    "a long range": _LONG // LARGEST_FETCH,
    "a listing": 1,
    "a delete": 1,
    "three deletes": 1,
    "no delete": 0,
}


class RequestCounts:
    """A class of tests has a fixture `store`, and says in `costs` which of them are others."""

    costs: ClassVar[Mapping[str, int]] = {}

    async def test_every_verb_makes_the_requests_it_needs_and_no_more(self, store: Any) -> None:
        found: dict[str, int] = {}

        async def count(what: str, awaitable: Any) -> None:
            before = store.stats.num_requests
            await awaitable
            found[what] = store.stats.num_requests - before

        await store.put("first", b"")  # a session may begin with it
        await store.delete(["first"])
        await count("a put", store.put("x", b"0123456789"))
        await count("a commit", store.put_if_absent("y", b"1"))
        await count("a get", store.get("x"))
        await count("a range", store.get_range("x", 2, 4))
        await count("an empty range", store.get_range("x", 4, 4))
        await count("the end", store.get_suffix("x", 5))
        await count("a head", store.head("x"))
        await count("three objects", store.get_many(["x", "y", "x"]))
        await count("a short stream", store.put_stream("s", pieces(_MEGABYTE)))
        await count("a stream of 8 MiB", store.put_stream("s", pieces(*[_MEGABYTE] * 8)))
        await count("a stream of 20 MiB", store.put_stream("s", pieces(*[_MEGABYTE] * 20)))
        near, far = (900_000, 900_010), (5 << 20, 6 << 20)
        await count("near ranges", store.get_ranges("s", [(0, 10), near]))
        await count("far ranges", store.get_ranges("s", [(0, 10), near, far]))
        await count("a long range", store.get_ranges("s", [(0, _LONG)]))
        await count("a listing", paths_of(store))
        await count("a delete", store.delete(["x"]))
        await count("three deletes", store.delete(["x", "y", "s"]))
        await count("no delete", store.delete([]))
        assert found == {**_COSTS, **self.costs}, found
