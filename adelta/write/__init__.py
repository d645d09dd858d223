"""Rows → data files that a commit can add: partitioned, sized, with statistics."""
