"""CPU per request of adelta's stores against obstore's, in one run against one server.

    python perf/bench_requests.py [--store S] [--endpoint URL] [--requests N] [--rounds R]

Without an endpoint it starts a server: for S3 Ceph's RADOS gateway, which checks every signature,
or moto where that is not installed; fake-gcs-server, which takes no puts of obstore's; Azurite.
What is printed is the CPU time of this process (user and system, all threads) per request, the best
of several rounds that alternate between the two, and their ratio; the time that passes depends on
the server and the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import obstore
from figures import record
from obstore.store import AzureStore as ObstoreAzure
from obstore.store import GCSStore
from obstore.store import S3Store as ObstoreS3

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from adelta.storage.azure import AzureStore
from adelta.storage.azure_options import parse_azure_options
from adelta.storage.gcs import GcsStore
from adelta.storage.s3 import S3Store
from tests.support.azure_server import AzureServer, running_azure
from tests.support.gcs_server import running_gcs
from tests.support.s3_server import S3Server, running_server

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from adelta.storage.http_store import HttpObjectStore

_BUCKET = "adelta-bench"
_BODY = os.urandom(4096)
_LISTED = 1000


async def _measure(
    work: Callable[[int], Awaitable[object]], requests: int, at_once: int
) -> tuple[float, float]:
    """Microseconds of CPU and of time per request."""
    numbers = iter(range(requests))

    async def worker() -> None:
        for number in numbers:
            await work(number)

    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(worker() for _ in range(at_once)))
    cpu, passed = time.process_time() - cpu, time.perf_counter() - began
    return cpu / requests * 1e6, passed / requests * 1e6


async def _compare(
    name: str, ours: HttpObjectStore, theirs: Any, requests: int, rounds: int, at_once: int
) -> None:
    await asyncio.gather(*(ours.put(f"objects/{n:05}", _BODY) for n in range(_LISTED)))

    async def get_ours(number: int) -> None:
        assert len(await ours.get(f"objects/{number % _LISTED:05}")) == 4096

    async def get_theirs(number: int) -> None:
        answer = await obstore.get_async(theirs, f"objects/{number % _LISTED:05}")
        assert len(await answer.bytes_async()) == 4096

    async def range_ours(number: int) -> None:
        assert len(await ours.get_range(f"objects/{number % _LISTED:05}", 100, 1124)) == 1024

    async def range_theirs(number: int) -> None:
        path = f"objects/{number % _LISTED:05}"
        assert len(await obstore.get_range_async(theirs, path, start=100, end=1124)) == 1024

    async def put_ours(number: int) -> None:
        await ours.put(f"put/{number % _LISTED:05}", _BODY)

    async def put_theirs(number: int) -> None:
        await obstore.put_async(theirs, f"put/{number % _LISTED:05}", _BODY)

    async def list_ours(_number: int) -> None:
        assert sum([len(page) async for page in ours.list("objects/")]) == _LISTED

    async def list_theirs(_number: int) -> None:
        pages = obstore.list(theirs, "objects/", chunk_size=_LISTED)
        assert sum([len(page) async for page in pages]) == _LISTED

    jobs: list[
        tuple[str, int, Callable[[int], Awaitable[object]], Callable[..., Awaitable[object]]]
    ]
    jobs = [
        ("get, 4 KiB", requests, get_ours, get_theirs),
        ("ranged get, 1 KiB", requests, range_ours, range_theirs),
        ("put, 4 KiB", requests // 4, put_ours, put_theirs),
        ("list, 1000 keys", max(20, requests // 100), list_ours, list_theirs),
    ]
    if name.startswith("gcs"):
        jobs = jobs[:2]
    print(f"{name}; {at_once} at once; best of {rounds} rounds")
    print(
        f"{'request':20}{'adelta CPU':>12}{'obstore CPU':>13}{'ratio':>7}{'time':>12}{'time':>12}"
    )
    prefix = "" if name.startswith("s3") else f"{name.partition(' ')[0]} "
    for what, count, our_work, their_work in jobs:
        for work in (our_work, their_work):
            await _measure(work, max(at_once, count // 20), at_once)
        our_best = their_best = (float("inf"), float("inf"))
        for _ in range(rounds):
            our_best = min(our_best, await _measure(our_work, count, at_once))
            their_best = min(their_best, await _measure(their_work, count, at_once))
        ratio = our_best[0] / their_best[0]
        record(f"{prefix}request {what}", cpu=ratio)
        print(
            f"{what:20}{our_best[0]:9.0f} µs{their_best[0]:10.0f} µs{ratio:7.2f}"
            f"{our_best[1]:9.0f} µs{their_best[1]:9.0f} µs"
        )
    await ours.aclose()


@contextlib.contextmanager
def _stores(store: str, endpoint: str | None) -> Iterator[tuple[str, HttpObjectStore, Any]]:
    """The server's name, and adelta's and obstore's store on it."""
    allow = {"allow_http": True}
    with contextlib.ExitStack() as stack:
        if store == "gcs":
            where = endpoint or stack.enter_context(running_gcs())
            options = {"google_base_url": where, "google_skip_signature": "true"}
            ours = GcsStore.from_options("adelta-test", "", {**options, "allow_http": "true"})
            config = {"base_url": where, "skip_signature": "true"}
            yield (
                f"gcs at {where}",
                ours,
                GCSStore("adelta-test", config=config, client_options=allow),
            )
        elif store == "azure":
            azure = AzureServer(endpoint) if endpoint else stack.enter_context(running_azure())
            given = parse_azure_options(None, azure.storage_options, {})
            assert given.key is not None
            theirs = ObstoreAzure(
                "adelta-test",
                account_name=given.account,
                access_key=base64.b64encode(given.key).decode(),
                endpoint=azure.endpoint,
                client_options=allow,
            )
            there = AzureStore.from_options("adelta-test", "", azure.storage_options)
            yield f"azure at {azure.endpoint}", there, theirs
        else:
            server = (
                S3Server("server", endpoint) if endpoint else stack.enter_context(running_server())
            )
            server.make_bucket(_BUCKET)
            mine = S3Store.from_options(_BUCKET, "", server.storage_options)
            yield (
                f"s3 ({server.kind}) at {server.endpoint}",
                mine,
                ObstoreS3(
                    _BUCKET,
                    endpoint=server.endpoint,
                    access_key_id=server.access_key,
                    secret_access_key=server.secret_key,
                    region=server.region,
                    virtual_hosted_style_request=False,
                    client_options=allow,
                ),
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--store", choices=("s3", "gcs", "azure"), default="s3")
    parser.add_argument("--endpoint", help="a running server with the keys test and testtest")
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tables", help=argparse.SUPPRESS)  # there are none
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--uvloop", action="store_true", help="run on uvloop")
    arguments = parser.parse_args()
    factory = None
    if arguments.uvloop:
        import uvloop

        factory = uvloop.new_event_loop
    with (
        _stores(arguments.store, arguments.endpoint) as stores,
        asyncio.Runner(loop_factory=factory) as runner,
    ):
        runner.run(_compare(*stores, arguments.requests, arguments.rounds, arguments.at_once))


if __name__ == "__main__":
    main()
