"""Who decides on a table's commits, where that is not the filesystem, and how its features differ.

A commit owner ratifies commits before the log shows them. Three features say that there is one, and
what differs between them is data: `ManagementKind`. Everything else about owners is the same for
all of them.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

import orjson

from adelta._dataclasses import dataclass
from adelta.errors import InvalidPropertyError
from adelta.kernel.log_path import COMMITS_DIR, STAGED_DIR
from adelta.kernel.table_features._removal import with_properties
from adelta.kernel.table_features.in_commit_timestamp import IN_COMMIT_TIMESTAMPS_ENABLED
from adelta.kernel.table_properties import Property, parse_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.table_features._feature import ProtocolAndMetadata

__all__ = ["Management", "ManagementKind", "management_by", "parse_conf"]


def parse_conf(text: str) -> Mapping[str, str]:
    """The entries of a JSON object of texts, as owners' configurations are stored."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise ValueError('must be a JSON object of texts, such as {"endpoint": "https://..."}')
    return value


def parse_name(text: str) -> str:
    """The name of a commit owner."""
    if not text.strip():
        raise ValueError("must name a commit owner")
    return text


@dataclass(frozen=True, slots=True)
class ManagementKind:
    """What differs between the features by which a table has a commit owner.

    Attributes:
        feature: the feature's name.
        folders: where commits are that have not been published: they are written to the first, and
            looked for in all.
        owner_key: the property that names the owner; None where the table does not.
        conf_key: the property that says how the owner is reached.
        table_conf_key: the property that keeps what the owner wants kept; None where there is none.
        may_lack_owner: whether a table may support the feature and have no owner.
        permits_maintenance: whether the log may be cleaned up without the owner's leave.
    """

    feature: str
    folders: tuple[str, ...]
    owner_key: str | None = None
    conf_key: str | None = None
    table_conf_key: str | None = None
    may_lack_owner: bool = False
    permits_maintenance: bool = True

    @property
    def properties(self) -> tuple[Property[object], ...]:
        """The table properties that belong to it."""
        named = () if self.owner_key is None else (Property(self.owner_key, parse_name, None),)
        return (*named, *self._confs)

    @property
    def _confs(self) -> tuple[Property[Mapping[str, str] | None], ...]:
        keys = (self.conf_key, self.table_conf_key)
        return tuple(Property(key, parse_conf, None) for key in keys if key is not None)

    def owner_in(self, configuration: Mapping[str, str]) -> str | None:
        """The owner of this kind that a table's properties name, if they name one."""
        if self.owner_key is None:
            return None
        return Property(self.owner_key, parse_text, "").text(configuration) or None

    def has_owner(self, metadata: Metadata) -> bool:
        """Whether metadata name an owner of this kind."""
        return self.owner_in(metadata.configuration) is not None

    def conf_in(self, configuration: Mapping[str, str]) -> Mapping[str, str]:
        """How the owner is reached.

        Raises:
            InvalidPropertyError: that cannot be read.
        """
        return _conf(self.conf_key, configuration)

    def table_conf_in(self, configuration: Mapping[str, str]) -> Mapping[str, str]:
        """What is kept for the owner.

        Raises:
            InvalidPropertyError: that cannot be read.
        """
        return _conf(self.table_conf_key, configuration)

    def changes_owner(self, before: Metadata, after: Metadata) -> bool:
        """Whether the owner after a change is another one than before, or none."""
        keys = self.properties
        return any(p.text(before.configuration) != p.text(after.configuration) for p in keys)

    def contradiction(self, protocol: Protocol, metadata: Metadata) -> str | None:
        """What of protocol and metadata contradicts the other, as a clause; None if nothing does.

        The RFC: a table with the property and not the feature, or the reverse, is invalid.
        """
        if self.owner_key is None:
            return None
        supported = self.feature in (protocol.writer_features or ())
        named = self.has_owner(metadata)
        if named and not supported:
            return (
                f"has the property {self.owner_key}, and its protocol does not list the feature "
                f"{self.feature}"
            )
        if supported and not named and not self.may_lack_owner:
            return (
                f"lists the feature {self.feature} in its protocol, and has no property "
                f"{self.owner_key}"
            )
        return None

    def complete_metadata(
        self, _before: Metadata | None, after: Metadata, protocol: Protocol, _: Callable[[], str]
    ) -> Metadata:
        """A table that comes to have an owner has in-commit timestamps."""
        owned = self.feature in (protocol.writer_features or ()) and self.has_owner(after)
        if not owned or IN_COMMIT_TIMESTAMPS_ENABLED.key in after.configuration:
            return after
        return with_properties(after, {IN_COMMIT_TIMESTAMPS_ENABLED.key: "true"})

    def check(self, before: ProtocolAndMetadata | None, after: ProtocolAndMetadata) -> None:
        """Refuse an owner without in-commit timestamps, half an owner, and secrets.

        Raises:
            InvalidPropertyError: the table would have one of these.
        """
        if not self.has_owner(after.metadata):
            if not self.may_lack_owner:
                raise InvalidPropertyError(
                    f"a table with the feature {self.feature} names its commit owner in "
                    f"{self.owner_key}: set that, or take the table from its owner by "
                    "release_table"
                )
            return
        if not IN_COMMIT_TIMESTAMPS_ENABLED.read(after.configuration):
            raise InvalidPropertyError(
                f"a table that has a commit owner has in-commit timestamps: "
                f"{IN_COMMIT_TIMESTAMPS_ENABLED.key} has to be true"
            )
        for conf in self._confs:
            if before is None or conf.text(before.configuration) != conf.text(after.configuration):
                _refuse_secrets(conf, after.configuration)


def _conf(key: str | None, configuration: Mapping[str, str]) -> Mapping[str, str]:
    if key is None:
        return {}
    conf: Property[Mapping[str, str] | None] = Property(key, parse_conf, None)
    return conf.read(configuration) or {}


def _refuse_secrets(
    conf: Property[Mapping[str, str] | None], properties: Mapping[str, str]
) -> None:
    from adelta.kernel.table_features._secret_entries import is_secret

    for key, value in (conf.read(properties) or {}).items():
        if is_secret(key, value):
            raise InvalidPropertyError(
                f"the entry {key[:80]!r} of {conf.key} looks like a secret, and everybody who can "
                "read the table reads its properties: leave it out, and give secrets as storage "
                "options or in the environment"
            )


CATALOG = ManagementKind(
    feature="catalogManaged",
    folders=(STAGED_DIR,),
    permits_maintenance=False,
)
MANAGED = ManagementKind(
    feature="managedCommit",
    folders=(COMMITS_DIR,),
    owner_key="delta.managedCommit.commitOwner",
    conf_key="delta.managedCommit.commitOwnerConf",
)
COORDINATED = ManagementKind(
    feature="coordinatedCommits-preview",
    folders=(STAGED_DIR, COMMITS_DIR),  # Delta Spark 4.0's, and that of 3.3
    owner_key="delta.coordinatedCommits.commitCoordinator-preview",
    conf_key="delta.coordinatedCommits.commitCoordinatorConf-preview",
    table_conf_key="delta.coordinatedCommits.tableConf-preview",
    may_lack_owner=True,
)
KINDS = (CATALOG, MANAGED, COORDINATED)


@dataclass(frozen=True, slots=True)
class Management:
    """That a commit owner decides on a table's commits, and which.

    `owner` is its name, None where the table does not say; `conf` is how it is reached, and
    `table_conf` what the table keeps for it.
    """

    kind: ManagementKind
    owner: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict, hash=False)
    table_conf: Mapping[str, str] = field(default_factory=dict, hash=False)


def management_by(protocol: Protocol, metadata: Metadata) -> Management | None:
    """Who decides on the commits of a table; None where that is the filesystem.

    Raises:
        InvalidPropertyError: what the table says of its owner cannot be read.
    """
    features = protocol.writer_features
    if not features:
        return None
    properties = metadata.configuration
    for kind in KINDS:
        if kind.feature not in features:
            continue
        if kind.owner_key is None:
            return Management(kind)
        if owner := kind.owner_in(properties):
            return Management(kind, owner, kind.conf_in(properties), kind.table_conf_in(properties))
    return None
