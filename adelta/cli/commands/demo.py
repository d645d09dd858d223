"""TPC-H through a Spark pipeline, with a service and a consumer on an event loop beside it.

Spark writes a bronze, a silver and a gold table; meanwhile an async service takes snapshots and a
consumer follows bronze's log. The gold table is checked against the same query on the raw data.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from adelta.cli.arguments import add_storage
from adelta.errors import InvalidUseError

if TYPE_CHECKING:
    from adelta.console.render import Output

__all__ = ["configure", "run"]

_DEFAULT_LAKE = "demo-lake"
_DEFAULT_SCALE = 0.1


def _scale(text: str) -> float:
    try:
        scale = float(text)
    except ValueError:
        scale = 0.0
    if not 0.001 <= scale <= 1000.0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0.001 to 1000")
    return scale


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "lake",
        nargs="?",
        default=_DEFAULT_LAKE,
        metavar="LAKE_URI",
        help=f"where the tables go: a folder or s3://... (default: ./{_DEFAULT_LAKE})",
    )
    parser.add_argument(
        "--scale",
        type=_scale,
        default=_DEFAULT_SCALE,
        metavar="S",
        help=f"TPC-H scale factor; 1 is 6 million line items (default: {_DEFAULT_SCALE})",
    )
    add_storage(parser)


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Run the demo."""
    try:
        from adelta.demo.run import run_demo  # PySpark is loaded by those alone who ask for it
    except ModuleNotFoundError as error:
        missing = (error.name or "more").partition(".")[0]
        raise InvalidUseError(
            f"the demo needs {missing}, which is not installed: pip install 'adelta[demo]'"
        ) from error
    await run_demo(arguments.lake, arguments.scale, dict(arguments.options), output)
