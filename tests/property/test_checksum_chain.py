"""A checksum that is carried from commit to commit says what counting all files would say."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from adelta.kernel.actions.commit_info import CommitInfo
from adelta.kernel.actions.domain_metadata import DomainMetadata
from adelta.kernel.actions.file_actions import AddFile, DeletionVectorDescriptor
from adelta.kernel.actions.json import decode_commits, encode_commit
from adelta.kernel.actions.metadata import Metadata
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.actions.set_transaction import SetTransaction
from adelta.kernel.checksum.advance import advanced
from adelta.kernel.checksum.file_facts import SIZE_BOUNDARIES
from adelta.kernel.checksum.json import decode, encode
from adelta.kernel.checksum.summary import nothing, summarize
from adelta.kernel.replay import reconcile

if TYPE_CHECKING:
    from adelta.kernel.actions.json import Action

METADATA = Metadata("an-id", '{"type":"struct","fields":[]}', created_time=1)
PROTOCOL = Protocol(3, 7, ("deletionVectors",), ("deletionVectors",))

SIZES = st.one_of(st.sampled_from([0, 1, 8191, 8192, 1 << 40]), st.integers(0, 1 << 39))
STEPS = st.lists(
    st.tuples(
        st.lists(SIZES, max_size=3),  # files added
        st.integers(0, 3),  # how many are removed
        st.booleans(),  # whether a removed file comes back with a deletion vector
        st.sampled_from(["a", "b", None]),  # an application's transaction
        st.sampled_from(["d", "e", None]),  # a domain
        st.booleans(),  # whether it is removed
    ),
    max_size=8,
)


@given(STEPS, st.booleans())
def test_carrying_on_is_counting_anew(steps: list[Any], lazily: bool) -> None:
    checksum = nothing(PROTOCOL, METADATA, size_boundaries=SIZE_BOUNDARIES)
    live: list[AddFile] = []
    batches = []
    transactions: dict[str, SetTransaction] = {}
    domains: dict[str, DomainMetadata] = {}
    for version, (sizes, removed, masked, app, domain, dropped) in enumerate(steps):
        actions: list[Action] = [
            CommitInfo(operation="WRITE", txn_id=f"t{version}", engine_info="adelta/1")
        ]
        gone, live = live[:removed], live[removed:]
        actions += [file.remove(1) for file in gone]
        new = [AddFile(f"{version}-{n}", {}, size, 1) for n, size in enumerate(sizes)]
        if masked and gone:
            vector = DeletionVectorDescriptor("i", f"v{version}", 1, 10 * version + 1)
            new.append(replace(gone[0], deletion_vector=vector))
        actions += new
        live = live + new
        if app:
            transactions[app] = SetTransaction(app, version)
            actions.append(transactions[app])
        if domain:
            domains[domain] = DomainMetadata(domain, str(version), removed=dropped)
            actions.append(domains[domain])
        batch = decode_commits([(version, encode_commit(actions))], lazily=lazily)
        batches.append(batch)
        later = advanced(checksum, batch)
        assert later is not None
        checksum = decode(encode(later), "as it is written and read again")
        counted = summarize(
            reconcile(batches, "memory://lake/t").adds,
            PROTOCOL,
            METADATA,
            set_transactions=transactions.values(),
            domain_metadata=[d for d in domains.values() if not d.removed],
            transaction_id=f"t{version}",
            size_boundaries=SIZE_BOUNDARIES,
        )
        assert checksum == counted


def test_removes_of_an_engine_that_does_not_check_them_are_not_counted() -> None:
    """A stale compaction removes again what is gone already."""
    start = nothing(PROTOCOL, METADATA, size_boundaries=SIZE_BOUNDARIES)
    file = AddFile("a", {}, 5, 1)
    for engine in ("delta-rs:py-1.6.6", None):
        info = CommitInfo(operation="OPTIMIZE", engine_info=engine)
        removing, adding = [info, file.remove(1)], [info, file]
        first = advanced(start, decode_commits([(0, encode_commit(adding))]))
        assert first is not None, "new files are new, whoever adds them"
        assert advanced(first, decode_commits([(1, encode_commit(removing))])) is None
