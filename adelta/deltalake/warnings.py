"""Warnings under deltalake's names."""

from __future__ import annotations


class ExperimentalWarning(Warning):
    """Of what may still change."""
