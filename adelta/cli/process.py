"""A command that has been asked for rightly: one event loop, an exit status out."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import anyio

from adelta.cli.exit_status import DONE, INTERRUPTED, exit_status
from adelta.console.render import Output
from adelta.errors import AdeltaError

if TYPE_CHECKING:
    import argparse

__all__ = ["run_command"]


def _use_uvloop() -> bool:
    try:
        import uvloop  # noqa: F401  (only whether it is there)
    except ImportError:
        return False
    return True


def run_command(arguments: argparse.Namespace) -> int:
    """Run the command of `arguments`, and say on one line what fails; the exit status."""
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
        return INTERRUPTED
    except AdeltaError as error:
        _complain(error)
        return exit_status(error)
    return DONE


def _complain(error: AdeltaError) -> None:
    message = " ".join(str(error).split()) or type(error).__name__
    print(f"adelta: {message}", file=sys.stderr)
