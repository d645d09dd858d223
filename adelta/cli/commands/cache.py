"""Look after the disk cache: what is in it, rows that are read ahead, and emptying it.

The folder is that of ``--option adelta_cache_dir=...``, or of the variable ADELTA_CACHE_DIR.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from adelta._concurrency import in_io_thread
from adelta.cli.arguments import add_storage, add_table, add_version, open_snapshot, open_table
from adelta.console.progress_bar import progress_bar
from adelta.console.render import camel_case, size
from adelta.errors import InvalidOptionError
from adelta.progress import Meter
from adelta.storage._cache_writer import keeping_all
from adelta.storage.given_options import GivenOptions
from adelta.storage.providers import provider_of
from adelta.storage.resolve import cache_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable

    from adelta.console.render import Output
    from adelta.storage.disk_cache import DiskCache

    Verb = Callable[[argparse.Namespace, Output], Awaitable[None]]

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    def action(name: str, summary: str, verb: Verb) -> Any:
        added = actions.add_parser(name, help=summary, description=summary)
        added.set_defaults(verb=verb)
        return added

    new = action("status", "what is in the cache, and how many reads it answered", _status)
    add_storage(new)
    new.add_argument("--json", action="store_true", help="print JSON lines, for programs")
    new = action("warm", "read rows of a table, so that they are in the cache", _warm)
    add_table(new)
    add_version(new)
    new.add_argument(
        "--columns",
        type=lambda text: [name.strip() for name in text.split(",") if name.strip()],
        metavar="A,B",
        help="only these columns",
    )
    new.add_argument(
        "--where", metavar="EXPRESSION", help="only rows where this Spark SQL expression is true"
    )
    new = action("clear", "delete all that is in the cache", _clear)
    add_storage(new)
    new.add_argument("--json", action="store_true", help="print JSON lines, for programs")


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Do what was asked."""
    await arguments.verb(arguments, output)


def _cache(arguments: argparse.Namespace) -> DiskCache:
    found = cache_of(GivenOptions(dict(arguments.options)))
    if found is None:
        raise InvalidOptionError(
            "no folder is named: give --option adelta_cache_dir=/path, or set ADELTA_CACHE_DIR"
        )
    return found


async def _status(arguments: argparse.Namespace, output: Output) -> None:
    cache = _cache(arguments)
    status = await in_io_thread(cache.status)
    if output.as_json:
        output.line({**camel_case(status), "figures": camel_case(status.figures)})
        return
    figures = status.figures
    output.record(
        {
            "folder": status.folder,
            "kept": f"{size(status.bytes)} of {size(cache.limit)}, in {status.extents:,} files",
            "reads": f"{figures.hits:,} from the cache, {figures.misses:,} with requests",
            "bytes": f"{size(figures.bytes_from_cache)} from the cache, "
            f"{size(figures.bytes_from_store)} from stores",
        }
    )


async def _warm(arguments: argparse.Namespace, output: Output) -> None:
    cache = _cache(arguments)
    if provider_of(arguments.uri).is_near:
        raise InvalidOptionError(f"{arguments.uri} is near: nothing of it is kept in the cache")
    rows = 0
    before = (await in_io_thread(cache.status)).figures
    with progress_bar() as bar, keeping_all():
        async with open_table(arguments) as table:
            snapshot = await open_snapshot(table, arguments)
            scan = snapshot.scan(columns=arguments.columns, where=arguments.where)
            meter = Meter(bar, "reading", unit="rows")
            async with aclosing(scan.batches()) as batches:
                async for batch in batches:
                    rows += batch.num_rows
                    meter.advance(batch.num_rows)
    status = await in_io_thread(cache.status)
    fetched = status.figures.bytes_from_store - before.bytes_from_store
    if output.as_json:
        output.line({"rows": rows, "bytesFetched": fetched, "cache": asdict(status)})
        return
    output.say(
        f"{rows:,} rows read, of which {size(fetched)} were fetched; "
        f"the cache has {size(status.bytes)}."
    )


async def _clear(arguments: argparse.Namespace, output: Output) -> None:
    cache = _cache(arguments)
    await in_io_thread(cache.clear)
    if output.as_json:
        output.line({"folder": str(cache.folder)})
        return
    output.say(f"{cache.folder} is empty.")
