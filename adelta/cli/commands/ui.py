"""Show tables in a browser: what they are, what happened to them, how they are laid out.

The page answers on this machine only, and changes nothing. Reached from other machines
(``--host``), it wants a token, and a certificate. It ends at SIGTERM or SIGINT.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

import anyio

from adelta.cli.arguments import add_storage, natural

if TYPE_CHECKING:
    import argparse

    from adelta.console.render import Output
    from adelta.ui.settings import UiSettings

__all__ = ["configure", "run"]

TOKEN = "ADELTA_UI_TOKEN"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("uris", nargs="+", metavar="URI", help="the tables")
    add_storage(parser)
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="where to listen")
    parser.add_argument(
        "--port", type=natural, default=8788, metavar="N", help="0 for one that is free"
    )
    parser.add_argument(
        "--with-token",
        action="store_true",
        help="want a token on this machine, too, where others use it; it is made anew at each "
        f"start, unless the variable {TOKEN} has one",
    )
    parser.add_argument(
        "--name",
        dest="names",
        action="append",
        default=[],
        metavar="HOST",
        help="a name by which browsers may ask for the page; may be repeated",
    )
    parser.add_argument("--certificate", metavar="FILE", help="for TLS: its certificate in PEM")
    parser.add_argument("--key", metavar="FILE", help="the certificate's key, if in another file")
    parser.add_argument(
        "--behind-tls",
        action="store_true",
        help="listen to other machines without a certificate: something before it encrypts",
    )
    parser.add_argument("--json", action="store_true", help="print JSON lines, for programs")


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Serve the page until told to stop."""
    from adelta.ui.server import running_ui

    settings = _settings(arguments)
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with running_ui(settings) as page:
            if output.as_json:
                output.line({"endpoint": page.endpoint, "address": page.address})
            else:
                output.say(f"Open {page.address} in a browser; Ctrl-C ends it.")
            sys.stdout.flush()
            async for _ in signals:
                break


def _settings(arguments: argparse.Namespace) -> UiSettings:
    from adelta.serving.listening import Address, is_loopback
    from adelta.ui.server import new_token
    from adelta.ui.settings import UiSettings

    token = os.environ.get(TOKEN)
    if not token and (arguments.with_token or not is_loopback(arguments.host)):
        token = new_token()
    return UiSettings(
        tuple(arguments.uris),
        dict(arguments.options),
        Address(
            arguments.host,
            arguments.port,
            arguments.certificate,
            arguments.key,
            arguments.behind_tls,
        ),
        token or None,
        tuple(arguments.names),
    )
