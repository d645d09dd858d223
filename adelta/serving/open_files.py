"""Open files of a process: each connection is one, and systems let it have few by default."""

from __future__ import annotations

__all__ = ["room_for_connections"]

_OTHERS = 256  # files, sockets to stores and to a database


def room_for_connections(most: int) -> int:
    """How many of `most` connections there is room for, beside the process's other files.

    Its limit is raised for them as far as the system lets it.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return most
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most + _OTHERS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return min(most, max(soft - _OTHERS, soft // 2))
    return most
