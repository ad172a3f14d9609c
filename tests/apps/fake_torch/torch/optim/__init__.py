"""Optimizers."""

from . import optimizer  # noqa: F401
