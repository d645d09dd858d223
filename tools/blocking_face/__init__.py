"""The program that writes the blocking face: ``python -m tools.blocking_face [--check]``.

* `source` reads modules without importing them,
* `annotations` turns annotations of the async face into blocking ones,
* `grammar` reads the async face and refuses what has no blocking twin,
* `face` is what it has read,
* `emit` makes the twins' text,
* `program` writes or checks it.
"""
