"""Rows written anew without a change of data: what OPTIMIZE, REORG and auto-compaction share."""
