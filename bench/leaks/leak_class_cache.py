"""A dataset class caches every sample in a dict of the class."""

from pace import rounds

KIND = ("unbounded_cache", "unbounded_container")
HOLDER = "__main__.Dataset._cache"


class Dataset:
    _cache = {}

    def __getitem__(self, index):
        if index not in self._cache:
            self._cache[index] = bytes(2000)  # the leak
        return self._cache[index]


for number in rounds(150):
    Dataset()[number]
