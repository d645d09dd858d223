"""Run a commit owner: the service that decides which commits of the tables it owns count.

Alone it keeps its ledger in a file of SQLite, answers on this machine only, and prints the first
token once. Several instances share one PostgreSQL server. It ends at SIGTERM or SIGINT, when the
requests that are under way have been answered.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from adelta.cli.arguments import add_storage, natural, positive

if TYPE_CHECKING:
    import argparse

    from adelta.console.render import Output
    from adelta.owner.parts import Settings
    from adelta.owner.server import RunningOwner

__all__ = ["add_database", "configure", "database_of", "run"]

DATABASE = "ADELTA_OWNER_DATABASE"
_LEVELS = ("debug", "info", "warning", "error")


def add_database(parser: argparse.ArgumentParser) -> None:
    """Add ``--database``."""
    parser.add_argument(
        "--database",
        metavar="ADDRESS",
        help="the ledger: a file of SQLite, or postgresql://user:password@host/database, which is "
        f"better given by the variable {DATABASE} (default: {_default_database()})",
    )


def database_of(arguments: argparse.Namespace) -> str:
    """The ledger that the arguments or the environment name."""
    return arguments.database or os.environ.get(DATABASE) or _default_database()


def _default_database() -> str:
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return str(Path(base).expanduser() / "adelta" / "owner.db")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_database(parser)
    parser.add_argument(
        "--connections",
        type=positive,
        metavar="N",
        help="to the PostgreSQL server at most, and one more (default: 16)",
    )
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="where to listen")
    parser.add_argument(
        "--port", type=natural, default=8787, metavar="N", help="0 for one that is free"
    )
    parser.add_argument("--certificate", metavar="FILE", help="for TLS: its certificate in PEM")
    parser.add_argument("--key", metavar="FILE", help="the certificate's key, if in another file")
    parser.add_argument(
        "--behind-tls",
        action="store_true",
        help="listen to other machines without a certificate: something before it encrypts",
    )
    parser.add_argument(
        "--root",
        dest="roots",
        action="append",
        default=[],
        metavar="URI",
        help="a bucket or folder below which tables may lie (default: anywhere); may be repeated",
    )
    parser.add_argument(
        "--managed-root",
        metavar="URI",
        help="where tables of the catalog are given their places, for clients of Unity Catalog "
        "(default: beside the ledger, where that is a file)",
    )
    add_storage(parser)
    parser.add_argument(
        "--max-body", type=positive, metavar="BYTES", help="of one request (default: 64 MiB)"
    )
    parser.add_argument(
        "--max-rate",
        type=positive,
        metavar="N",
        help="requests a second of one token (default: 5000)",
    )
    parser.add_argument(
        "--max-waiting",
        type=positive,
        metavar="N",
        help="commits of one table that may wait to be backfilled (default: 4096)",
    )
    parser.add_argument(
        "--log-level", choices=_LEVELS, default="info", help="of what is logged in JSON lines"
    )
    parser.add_argument("--json", action="store_true", help="print JSON lines, for programs")


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Serve until told to stop."""
    from adelta.owner.logs import write_logs
    from adelta.owner.server import running_owner

    settings = _settings(arguments)
    write_logs(arguments.log_level)
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with running_owner(settings) as owner:
            _say(owner, settings, output)
            async for _ in signals:
                break


def _settings(arguments: argparse.Namespace) -> Settings:
    from adelta.owner.access import check_prefix
    from adelta.owner.ledger import LedgerLimits
    from adelta.owner.limits import ServiceLimits
    from adelta.owner.parts import Settings
    from adelta.owner.table_key import root_of
    from adelta.serving.open_files import room_for_connections

    asked = {"body_bytes": arguments.max_body, "requests_per_second": arguments.max_rate}
    service = ServiceLimits(**{name: value for name, value in asked.items() if value})
    service = replace(service, connections=room_for_connections(service.connections))
    waiting = {"waiting_commits": arguments.max_waiting} if arguments.max_waiting else {}
    pool = {"connections": arguments.connections} if arguments.connections else {}
    database = database_of(arguments)
    managed = arguments.managed_root or ""
    if not managed and "://" not in database:
        managed = str(Path(database).absolute().with_name("tables"))
    return Settings(
        database,
        host=arguments.host,
        port=arguments.port,
        certificate=arguments.certificate,
        key=arguments.key,
        storage_options=dict(arguments.options),
        roots=tuple(map(check_prefix, arguments.roots)),
        managed_root=root_of(managed) if managed else "",
        without_tls=arguments.behind_tls,
        service=service,
        ledger=LedgerLimits(**waiting),
        **pool,
    )


def _say(owner: RunningOwner, settings: Settings, output: Output) -> None:
    """Say where it answers, and the first token, which is told nowhere else."""
    if output.as_json:
        output.line({"endpoint": owner.endpoint, "token": owner.first_token})
        return
    output.say(f"The commit owner answers on {owner.endpoint}.")
    if owner.first_token is not None:
        output.say(
            f"Its first token, which allows everything and is not shown again: {owner.first_token}"
        )
        output.say(
            "Give it to clients by the variable ADELTA_OWNER_TOKEN, beside "
            f"ADELTA_OWNER_ENDPOINT={owner.endpoint}; make others by: adelta owner tokens create"
        )
    sys.stdout.flush()
