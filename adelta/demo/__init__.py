"""The demo: a Spark pipeline over a lake, and what an event loop sees of it meanwhile.

``dataset`` makes TPC-H data, ``pipeline`` is the Spark job, ``service`` and ``consumer`` run on the
event loop, ``report`` is what a person sees, and ``run`` joins them.
"""
