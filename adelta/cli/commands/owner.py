"""Look after a commit owner: tables that it takes over and gives up, its backfill, its tokens.

The service is asked at the endpoint and with the token of the variables ADELTA_OWNER_ENDPOINT and
ADELTA_OWNER_TOKEN; tokens are made in its ledger itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import adelta
from adelta._clock import SYSTEM_CLOCK
from adelta.cli.arguments import add_storage, interval, key_value
from adelta.cli.commands.serve import add_database, database_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable

    from adelta.console.render import Output
    from adelta.owner.access import Grant, Tokens

    Verb = Callable[[argparse.Namespace, Output], Awaitable[None]]

__all__ = ["configure", "run"]

_RIGHTS = ("read", "write", "own")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    def action(name: str, summary: str, verb: Verb, under: Any = actions) -> Any:
        added = under.add_parser(name, help=summary, description=summary)
        added.set_defaults(verb=verb)
        added.add_argument("--json", action="store_true", help="print JSON lines, for programs")
        return added

    new = action("status", "tables, and how far they are backfilled", _status)
    add_storage(new)
    new = action("backfill", "have all commits of tables put into their logs", _backfill)
    new.add_argument("uris", metavar="URI", nargs="*", help="the tables (default: all)")
    add_storage(new)
    new = action("adopt", "let the owner decide on a table's commits from now on", _adopt)
    new.add_argument("uri", metavar="URI", help="the table, as the owner sees it too")
    new.add_argument(
        "--owner",
        default="adelta",
        metavar="NAME",
        help="another kind of owner; how it is reached is then said by --conf",
    )
    new.add_argument(
        "--conf",
        type=key_value,
        action="append",
        metavar="KEY=VALUE",
        help="how the owner is reached, shown to all who read the table (default: the endpoint)",
    )
    add_storage(new)
    new = action("release", "let the filesystem decide on a table's commits again", _release)
    new.add_argument("uri", metavar="URI", help="the table")
    add_storage(new)
    new = action("recover", "have the owner take a table up again that its database lost", _recover)
    new.add_argument("uri", metavar="URI", help="the table")
    add_storage(new)
    tokens = actions.add_parser("tokens", help="who may do what").add_subparsers(
        title="actions", metavar="ACTION", required=True
    )
    add_database(action("list", "the tokens, without their secrets", _list, tokens))
    new = action("create", "make a token, and print it once", _create, tokens)
    add_database(new)
    new.add_argument("--right", choices=_RIGHTS, default="write", help="default: write")
    new.add_argument(
        "--prefix", required=True, metavar="URI", help="a bucket, a folder, or * for all tables"
    )
    new.add_argument("--label", default="", metavar="TEXT", help="what it is for")
    new.add_argument("--expires", type=interval, metavar="TIME", help="such as '30 days'")
    new = action("rotate", "make another token for the same, and end one", _rotate, tokens)
    add_database(new)
    new.add_argument("token_id", metavar="ID")
    new.add_argument(
        "--keep", type=interval, metavar="TIME", help="how long the old one counts (default: not)"
    )
    new = action("revoke", "end a token", _revoke, tokens)
    add_database(new)
    new.add_argument("token_id", metavar="ID")


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Do what the action says."""
    await arguments.verb(arguments, output)


# ----------------------------------------------------------------------------------- the service


async def _status(arguments: argparse.Namespace, output: Output) -> None:
    from adelta.commit.owner_client import owned_tables

    tables = await owned_tables(dict(arguments.options))
    if output.as_json:
        output.lines(tables)
        return
    columns = ("table", "state", "latest version", "backfilled version")
    output.table(
        columns,
        [
            (
                table.get("name") or table["uri"],
                table["state"],
                table["latest_version"],
                table["backfilled_version"],
            )
            for table in tables
        ],
    )


async def _backfill(arguments: argparse.Namespace, output: Output) -> None:
    from adelta.commit.owner_client import backfill_tables

    for table in await backfill_tables(dict(arguments.options), arguments.uris):
        if output.as_json:
            output.line(table)
        else:
            output.say(f"{table['uri']} is backfilled up to version {table['latest_version']}.")


async def _adopt(arguments: argparse.Namespace, output: Output) -> None:
    from adelta.commit.owner_client import named_owner

    options = dict(arguments.options)
    conf = dict(arguments.conf or ())
    if not conf and arguments.owner == "adelta":
        conf = {"endpoint": named_owner(options)[0]}
    done = await adelta.adopt_table(arguments.uri, arguments.owner, conf, storage_options=options)
    _say_version(arguments.uri, done.version, "has its commit owner", output)


async def _release(arguments: argparse.Namespace, output: Output) -> None:
    done = await adelta.release_table(arguments.uri, storage_options=dict(arguments.options))
    _say_version(arguments.uri, done.version, "has no commit owner", output)


async def _recover(arguments: argparse.Namespace, output: Output) -> None:
    version = await adelta.recover_table(arguments.uri, storage_options=dict(arguments.options))
    if output.as_json:
        output.line({"version": version})
    else:
        output.say(f"The commit owner has {arguments.uri} up to version {version}.")


def _say_version(uri: str, version: int | None, what: str, output: Output) -> None:
    if output.as_json:
        output.line({"version": version})
    elif version is None:
        output.say("Nothing to change.")
    else:
        output.say(f"From version {version} on {uri} {what}.")


# ------------------------------------------------------------------------------------ its tokens


async def _with_tokens(
    arguments: argparse.Namespace, work: Callable[[Tokens], Awaitable[None]]
) -> None:
    from adelta.owner.access import Tokens
    from adelta.owner.database import open_database

    database = await open_database(database_of(arguments))
    try:
        await work(Tokens(database))
    finally:
        await database.aclose()


async def _list(arguments: argparse.Namespace, output: Output) -> None:
    async def work(tokens: Tokens) -> None:
        found = await tokens.list()
        if output.as_json:
            output.lines(_told(grant) for grant in found)
            return
        columns = ("id", "right", "prefix", "label", "counts")
        now = SYSTEM_CLOCK.now_ms()
        output.table(
            columns,
            [(g.token_id, g.right.name.lower(), g.prefix, g.label, g.is_valid(now)) for g in found],
        )

    await _with_tokens(arguments, work)


async def _create(arguments: argparse.Namespace, output: Output) -> None:
    from adelta.owner.access import Right

    expires = None
    if arguments.expires is not None:
        expires = SYSTEM_CLOCK.now_ms() + round(arguments.expires.total_seconds() * 1000)

    async def work(tokens: Tokens) -> None:
        right = Right[arguments.right.upper()]
        made = await tokens.create(
            right, arguments.prefix, label=arguments.label, expires_ms=expires
        )
        _say_token(*made, output)

    await _with_tokens(arguments, work)


async def _rotate(arguments: argparse.Namespace, output: Output) -> None:
    kept = round(arguments.keep.total_seconds() * 1000) if arguments.keep else 0

    async def work(tokens: Tokens) -> None:
        _say_token(*await tokens.rotate(arguments.token_id, after_ms=kept), output)

    await _with_tokens(arguments, work)


async def _revoke(arguments: argparse.Namespace, output: Output) -> None:
    async def work(tokens: Tokens) -> None:
        await tokens.revoke(arguments.token_id)
        if output.as_json:
            output.line({"id": arguments.token_id})
        else:
            output.say(f"The token {arguments.token_id} counts no longer, in a moment.")

    await _with_tokens(arguments, work)


def _say_token(token: str, grant: Grant, output: Output) -> None:
    if output.as_json:
        output.line({"token": token, **_told(grant)})
    else:
        output.say(f"The token {grant.token_id}, which is not shown again: {token}")


def _told(grant: Grant) -> dict[str, object]:
    return {
        "id": grant.token_id,
        "right": grant.right.name.lower(),
        "prefix": grant.prefix,
        "label": grant.label,
        "createdMs": grant.created_ms,
        "expiresMs": grant.expires_ms,
        "revokedMs": grant.revoked_ms,
    }
