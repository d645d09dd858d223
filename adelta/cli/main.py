"""The `adelta` command: arguments in, one event loop, an exit status out.

The exit status is 0 when the command did what was asked, 1 when it failed, 2 when it was asked
wrongly, 130 when it was interrupted. An error is one line on standard error. A reader that closes
the pipe early (``adelta read ... | head``) has seen enough, which is no failure.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING, Protocol, cast

import anyio

from adelta.cli.commands import (
    alter,
    changes,
    checkpoint,
    cleanup_log,
    compact_log,
    demo,
    detail,
    files,
    fsck,
    history,
    read,
    schema,
    show,
    tail,
)
from adelta.cli.render import Output
from adelta.errors import AdeltaError, InvalidExpressionError, InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

__all__ = ["main"]

_FAILED, _MISUSED, _INTERRUPTED = 1, 2, 130


class _Command(Protocol):
    """What a module of `adelta.cli.commands` offers."""

    SUMMARY: str

    def configure(self, parser: argparse.ArgumentParser) -> None: ...

    async def run(self, arguments: argparse.Namespace, output: Output) -> None: ...


_COMMANDS: tuple[ModuleType, ...] = (
    show,
    files,
    schema,
    detail,
    history,
    read,
    changes,
    tail,
    alter,
    checkpoint,
    compact_log,
    cleanup_log,
    fsck,
    demo,
)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="adelta", description="Look into Delta tables, and change them."
    )
    parser.add_argument("-V", "--version", action="version", version=f"adelta {version('adelta')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in _COMMANDS:
        command = cast("_Command", module)
        name = module.__name__.rpartition(".")[2].replace("_", "-")
        subparser = commands.add_parser(name, help=command.SUMMARY, description=module.__doc__)
        command.configure(subparser)
        subparser.set_defaults(command=command)
    return parser


def _use_uvloop() -> bool:
    try:
        import uvloop  # noqa: F401  (only whether it is there)
    except ImportError:
        return False
    return True


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    Bad usage ends in `SystemExit` with status 2, as argparse does it.
    """
    arguments = _parser().parse_args(argv)
    output = Output(as_json=getattr(arguments, "json", False))
    try:
        anyio.run(
            arguments.command.run,
            arguments,
            output,
            backend_options={"use_uvloop": _use_uvloop()},
        )
        sys.stdout.flush()
    except BrokenPipeError:
        # What is still buffered has no reader; without this the interpreter would say so at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return _INTERRUPTED
    except (InvalidOptionError, InvalidExpressionError) as error:
        _complain(error)
        return _MISUSED
    except AdeltaError as error:
        _complain(error)
        return _FAILED
    return 0


def _complain(error: AdeltaError) -> None:
    message = " ".join(str(error).split()) or type(error).__name__
    print(f"adelta: {message}", file=sys.stderr)
