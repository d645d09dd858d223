"""The event loop that blocking calls run on: uvloop's, where there is one.

It is made here for the portal's thread alone: the policy of the user's process is left as it is.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import Any

from adelta._concurrency import in_io_thread

__all__ = ["new_event_loop"]

if sys.platform == "win32":  # uvloop is not made for it

    def new_event_loop() -> asyncio.AbstractEventLoop:
        """A new event loop, not running yet."""
        return asyncio.new_event_loop()

else:
    import uvloop

    class _Loop(uvloop.Loop):
        """uvloop, but names are resolved in threads of Python's.

        libuv has threads of its own for that. They do not survive a fork; in a child that leaves
        by `sys.exit`, libuv's exit handler joins them nevertheless, and the child crashes.
        """

        async def getaddrinfo(self, host: Any, port: Any, **hints: Any) -> list[Any]:
            return await in_io_thread(socket.getaddrinfo, host, port, **hints)

    def new_event_loop() -> asyncio.AbstractEventLoop:
        """A new event loop, not running yet."""
        return _Loop()
