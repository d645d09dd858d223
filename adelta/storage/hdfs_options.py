"""The storage options of HDFS, and where its namenodes answer over HTTP.

Properties have Hadoop's own names (``dfs.namenode.http-address``), and are looked for in
``core-site.xml`` and ``hdfs-site.xml`` next, where ``HADOOP_CONF_DIR`` or ``HADOOP_HOME`` says
that there are any. What Hadoop takes from its environment alone is an option of the same name.
"""

from __future__ import annotations

import getpass
import os
import re
import xml.etree.ElementTree as ET
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError
from adelta.storage.client_options import concurrency_of, http_options, retry_policy
from adelta.storage.given_options import GivenOptions
from adelta.storage.http import HttpOptions
from adelta.storage.option_names import HDFS, refuse_without_meaning
from adelta.storage.retry import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Cluster", "HdfsOptions", "cluster_of", "parse_hdfs_options"]

_AUTHORITY = re.compile(r"(?:[A-Za-z0-9_](?:[A-Za-z0-9._-]*)|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?")
_PORTS = {"http": 9870, "https": 9871}
_FILES = ("core-site.xml", "hdfs-site.xml")
_ANY_HOST = ("0.0.0.0", "[::]")
_LONGEST_FILE = 16 << 20
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@/-]*\$?")


@dataclass(frozen=True, slots=True)
class HdfsOptions:
    """What the address, the options and the environment say, checked as far as that needs no I/O.

    The properties are Hadoop's, by their names in lower case. Who asks is the owner of the
    delegation `token`, or a Kerberos principal, or, where the cluster believes it, the `user`;
    `proxied` is in whose name. `datanodes` are the hosts that data may go to; None for any.
    """

    scheme: str
    authority: str
    properties: Mapping[str, str] = field(default_factory=dict)
    folder: str | None = None
    user: str | None = None
    proxied: str | None = None
    token: str | None = field(default=None, repr=False)
    principal: str | None = None
    keytab: str | None = None
    datanodes: tuple[str, ...] | None = None
    concurrency: int = 128
    http: HttpOptions = field(default_factory=HttpOptions)
    retry: RetryPolicy = field(default_factory=RetryPolicy)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where the namenodes answer, each by scheme, host and port, and whether by Kerberos alone."""

    origins: tuple[str, ...]
    by_kerberos: bool


def parse_hdfs_options(
    scheme: str,
    authority: str,
    options: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
) -> HdfsOptions:
    """What `options` and the environment (this process's, if none is given) say. No I/O.

    Raises:
        InvalidOptionError: a value is not allowed, or the address names no namenode.
    """
    if not _AUTHORITY.fullmatch(authority):
        shown = "what stands before a @" if "@" in authority else f"{authority!r:.300}"
        raise InvalidOptionError(
            f"{shown} is no namenode: give an address such as {scheme}://host/path or that of a "
            "nameservice; who asks is given by the storage option hadoop_user_name"
        )
    refuse_without_meaning(options, HDFS)
    given = GivenOptions(options, environment, HDFS)
    folder, home = given.text("conf_dir"), given.text("home")
    if folder is None and home is not None:
        folder = os.path.join(home, "etc", "hadoop")
    user = given.text("user_name")
    proxied = given.text("proxy_user")
    for name, value in (("hadoop_user_name", user), ("hadoop_proxy_user", proxied)):
        if value is not None and not _USER.fullmatch(value):
            raise InvalidOptionError(f"storage option {name} is no name of a user: {value!r:.100}")
    token = given.text("delegation_token")
    if token is not None and not re.fullmatch(r"[A-Za-z0-9_-]+", token):
        raise InvalidOptionError(
            "storage option hdfs_delegation_token is the text that GETDELEGATIONTOKEN gives as "
            "urlString, of letters, digits, '-' and '_'"
        )
    own = given.without_environment()
    if own.text("delegation_token") is not None and own.text("proxy_user") is not None:
        raise InvalidOptionError(
            "a delegation token is of the user whom it was got for: give hdfs_delegation_token "
            "of the user in whose name to ask, and leave hadoop_proxy_user out"
        )
    named = given.text("datanode_hosts")
    return HdfsOptions(
        scheme=scheme,
        authority=authority,
        properties=_properties(options),
        folder=folder,
        user=user,
        proxied=proxied,
        token=token,
        principal=given.text("kerberos_principal"),
        keytab=given.text("kerberos_keytab"),
        datanodes=None if named is None else tuple(re.findall(r"[^\s,]+", named.lower())),
        concurrency=concurrency_of(given),
        http=http_options(given),
        retry=retry_policy(given),
    )


def own_user() -> str | None:
    """The user of this process, as whom Hadoop asks by default; None where the system has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return None


def _properties(options: Mapping[str, str]) -> dict[str, str]:
    plain = {name.lower().removeprefix("spark.hadoop."): v for name, v in options.items()}
    return {name: str(v).strip() for name, v in plain.items() if "." in name and str(v).strip()}


def cluster_of(options: HdfsOptions) -> Cluster:
    """The cluster that the options and Hadoop's files name. It reads these, and so blocks.

    Raises:
        InvalidOptionError: a file cannot be read, or an address is none.
    """
    said = options.properties
    read = _read(options.folder) if options.folder is not None else {}
    known = {**read, **said}
    secure = options.scheme == "swebhdfs" or (
        options.scheme == "hdfs" and known.get("dfs.http.policy", "").upper() == "HTTPS_ONLY"
    )
    scheme = "https" if secure else "http"
    name = f"dfs.namenode.{scheme}-address"
    host, port = _split(options.authority)
    service = options.authority.lower()
    if ids := _list(known.get(f"dfs.ha.namenodes.{service}", "")):
        addresses = [known.get(f"{name}.{service}.{each}".lower(), "") for each in ids]
        missing = [each for each, found in zip(ids, addresses, strict=True) if not found]
        if missing:
            raise InvalidOptionError(
                f"where the namenode {missing[0]!r} of {options.authority!r} answers is not known: "
                f"set the storage option {name}.{options.authority}.{missing[0]}"
            )
    elif options.scheme != "hdfs":
        addresses = [f"{host}:{port or _PORTS[scheme]}"]
    elif name in said:
        addresses = _list(said[name])
    elif name in read and _is_default(read, options.authority):
        addresses = _list(read[name])
    else:
        addresses = [f"{host}:{_PORTS[scheme]}"]
    origins = tuple(dict.fromkeys(_origin(scheme, each, host, name) for each in addresses))
    if not origins:
        raise InvalidOptionError(f"the property {name} names no namenode: give host:port")
    return Cluster(origins, known.get("hadoop.security.authentication", "").lower() == "kerberos")


def _is_default(read: Mapping[str, str], authority: str) -> bool:
    """Whether Hadoop's files are of the cluster that the address names."""
    default = read.get("fs.defaultfs") or read.get("fs.default.name", "")
    return default.partition("://")[2].rstrip("/").lower() == authority.lower()


def _origin(scheme: str, address: str, host: str, name: str) -> str:
    if not _AUTHORITY.fullmatch(address):
        raise InvalidOptionError(f"the property {name} is host:port, not {address!r:.100}")
    named, port = _split(address)
    if named in _ANY_HOST:
        named = host
    return f"{scheme}://{named.lower()}:{port or _PORTS[scheme]}"


def _split(authority: str) -> tuple[str, str]:
    """Host and port; the port is empty where there is none."""
    host, colon, port = authority.rpartition(":")
    return (host, port) if colon and not port.endswith("]") else (authority, "")


def _list(value: str) -> list[str]:
    return [each for each in re.split(r"[\s,]+", value) if each]


def _read(folder: str) -> dict[str, str]:
    """The properties in Hadoop's files of a folder, by their names in lower case."""
    found: dict[str, str] = {}
    for name in _FILES:
        path = Path(folder) / name
        try:
            body = path.read_bytes() if path.stat().st_size <= _LONGEST_FILE else b"too long"
            if b"<!DOCTYPE" in body or b"<!ENTITY" in body:
                raise ValueError("it declares a document type")
            document = ET.fromstring(body)
        except FileNotFoundError:
            continue
        except (OSError, ET.ParseError, ValueError) as error:
            raise InvalidOptionError(
                f"Hadoop's configuration {str(path)!r} cannot be read: {error}; mend it, or unset "
                "HADOOP_CONF_DIR and give its properties as storage options"
            ) from error
        for each in document.iterfind("property"):
            key, value = each.findtext("name"), each.findtext("value")
            if key and value and "${" not in value:
                found[key.strip().lower()] = value.strip()
    return found
