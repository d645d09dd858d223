"""MERGE: rows of a source into a table, by what matches them.

From the request to the commit:

* `builder` is what users hold: the clauses as they are written (`clauses`);
* `plan` fits them to a version of the table: names (`names`), keys to join by (`keys`),
  what clauses make of rows (`assignments`), columns that the table takes in (`evolution`);
* `source` reads the source, once;
* `candidates` says which files can be concerned;
* `matching` has tasks that find the rows of these that change, by `join` and `decisions`;
* `rewriting` and `inserting` have tasks that write them, and new ones;
* `run` puts it together, in one commit, of which `metrics` tells.
"""

from adelta.operations.merge.builder import Merge as Merge
from adelta.operations.merge.builder import merge as merge
from adelta.operations.merge.metrics import MergeMetrics as MergeMetrics

__all__ = ["Merge", "MergeMetrics", "merge"]
