"""Nothing but what is below."""

from . import data  # noqa: F401
