"""Datasets."""


class Dataset:
    """What programs derive theirs from."""
