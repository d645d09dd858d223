"""What names buckets may have, by the rules of the stores that have them.

With virtual-hosted addressing a name becomes the first part of a host, to which signed requests
go, and then it has to follow Amazon's rules for general purpose buckets. Elsewhere it is one
segment of the path, and may be any name that a store has ever allowed: capitals and underscores, of
Amazon's older buckets, up to 255 characters, and a tenant before a colon, of Ceph's.
"""

from __future__ import annotations

import re

from adelta.errors import InvalidOptionError

__all__ = ["check_bucket", "fits_certificates", "is_azures_host", "is_fabrics_host"]

_LABEL = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_HOST = re.compile(rf"(?=.{{3,63}}$){_LABEL}(?:\.{_LABEL})*")
_NUMBERS = re.compile(r"\d+\.\d+\.\d+\.\d+")
_AZURES_HOST = re.compile(
    r"[a-z0-9-]{3,24}\.(?:z[0-9]+\.)?(?:blob|dfs)\."
    r"(?:core\.(?:windows\.net|chinacloudapi\.cn|usgovcloudapi\.net)|storage\.azure\.net)"
)
_FABRICS_HOST = re.compile(  # OneLake, that of a region, or of a workspace by a private link
    r"[a-z0-9-]{3,63}\.(?:z[0-9a-f]+\.)?(?:blob|dfs|onelake)\.fabric\.microsoft\.com"
)
_SEGMENT = re.compile(r"(?=.*[A-Za-z0-9])[A-Za-z0-9._:-]{1,255}")


def check_bucket(name: str, *, in_host: bool) -> str:
    """The name itself, if a bucket can have it; `in_host` where it becomes part of a host.

    Raises:
        InvalidOptionError: no bucket can have it.
    """
    if not _SEGMENT.fullmatch(name):
        shown = "what stands before a @" if "@" in name else f"{name!r:.300}"
        raise InvalidOptionError(
            f"{shown} is no name of a bucket: it is made of letters, digits, '.', '-', '_' and ':'"
        )
    if in_host and (not _HOST.fullmatch(name) or _NUMBERS.fullmatch(name)):
        raise InvalidOptionError(
            f"the bucket {name!r:.300} cannot be part of a host: with virtual-hosted addressing a "
            "name has 3 to 63 characters, lower-case letters, digits, '-' and '.', and is no IP "
            "address. Set aws_virtual_hosted_style_request=false if the store has such a bucket"
        )
    return name


def fits_certificates(name: str) -> bool:
    """Whether Amazon's certificates are for the bucket's own host: they are for one label only."""
    return "." not in name and _HOST.fullmatch(name) is not None


def is_azures_host(host: str) -> bool:
    """Whether the host is one of a storage account of Azure: `account.dfs.core.windows.net`."""
    return _AZURES_HOST.fullmatch(host.lower()) is not None or is_fabrics_host(host)


def is_fabrics_host(host: str) -> bool:
    """Whether the host is one of OneLake, whose containers are the workspaces of Fabric."""
    return _FABRICS_HOST.fullmatch(host.lower()) is not None
