"""Where the namenodes of a cluster answer, by its address, the options and Hadoop's files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from adelta.errors import InvalidOptionError
from adelta.storage.hdfs_options import Cluster, cluster_of, parse_hdfs_options

if TYPE_CHECKING:
    from pathlib import Path

HA = {
    "dfs.ha.namenodes.ns": "nn1,nn2",
    "dfs.namenode.http-address.ns.nn1": "one.example:9870",
    "dfs.namenode.http-address.ns.nn2": "two.example",
    "dfs.namenode.https-address.ns.nn1": "one.example",
    "dfs.namenode.https-address.ns.nn2": "two.example:9999",
}


def cluster(address: str, options: dict[str, str], **environment: str) -> Cluster:
    scheme, _, authority = address.partition("://")
    return cluster_of(parse_hdfs_options(scheme, authority, options, environment))


def site(folder: Path, name: str, properties: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    each = "".join(
        f"<property><name>{key}</name><value>{value}</value></property>"
        for key, value in properties.items()
    )
    (folder / name).write_text(f"<configuration>{each}</configuration>", encoding="utf-8")


@pytest.mark.parametrize(
    ("address", "options", "origins"),
    [
        ("hdfs://host", {}, ["http://host:9870"]),
        ("hdfs://host:8020", {}, ["http://host:9870"]),  # the port is that of another protocol
        ("hdfs://host", {"dfs.http.policy": "HTTPS_ONLY"}, ["https://host:9871"]),
        ("hdfs://host", {"dfs.namenode.http-address": "0.0.0.0:50070"}, ["http://host:50070"]),
        ("webhdfs://host:1234", {}, ["http://host:1234"]),
        ("swebhdfs://host", {}, ["https://host:9871"]),
        ("swebhdfs://host:1234", {}, ["https://host:1234"]),
        ("hdfs://ns", HA, ["http://one.example:9870", "http://two.example:9870"]),
        (
            "hdfs://ns",
            {**HA, "dfs.http.policy": "HTTPS_ONLY"},
            ["https://one.example:9871", "https://two.example:9999"],
        ),
    ],
)
def test_an_address_and_options_say_where_namenodes_are(
    address: str, options: dict[str, str], origins: list[str]
) -> None:
    assert cluster(address, options) == Cluster(tuple(origins), by_kerberos=False)


@pytest.mark.parametrize("variable", ["HADOOP_CONF_DIR", "HADOOP_HOME"])
def test_hadoops_files_say_it_too(tmp_path: Path, variable: str) -> None:
    folder = tmp_path / "etc" / "hadoop" if variable == "HADOOP_HOME" else tmp_path
    core = {"fs.defaultFS": "hdfs://ns", "hadoop.security.authentication": "kerberos"}
    site(folder, "core-site.xml", core)
    site(folder, "hdfs-site.xml", HA)
    found = cluster("hdfs://ns", {}, **{variable: str(tmp_path)})
    assert found.origins == ("http://one.example:9870", "http://two.example:9870")
    assert found.by_kerberos
    options = {"dfs.namenode.http-address.ns.nn1": "three.example:1"}  # which go before the files
    first, _ = cluster("hdfs://ns", options, **{variable: str(tmp_path)}).origins
    assert first == "http://three.example:1"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "hdfs-site.xml").write_text("<configuration>", encoding="utf-8")
    with pytest.raises(InvalidOptionError, match=r"hdfs-site\.xml.* cannot be read"):
        cluster("hdfs://ns", {"hadoop_conf_dir": str(tmp_path)})


def test_a_namenode_whose_address_is_not_told_is_named() -> None:
    options = {name: value for name, value in HA.items() if not name.endswith("address.ns.nn2")}
    with pytest.raises(InvalidOptionError, match=r"dfs\.namenode\.http-address\.ns\.nn2"):
        cluster("hdfs://ns", options)
