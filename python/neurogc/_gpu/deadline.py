"""The time that a look at memory may take, in all of its parts together."""

from time import perf_counter


class Deadline:
    """A moment after which every part leaves out the rest of its work."""

    __slots__ = ("began", "passed", "until")

    def __init__(self, seconds):
        self.began = perf_counter()
        self.until = self.began + seconds
        self.passed = False

    def left(self):
        """Seconds that are left."""
        return self.until - perf_counter()

    def is_over(self):
        """Whether the time is over. It stays so."""
        self.passed = self.passed or perf_counter() > self.until
        return self.passed

    def rows(self, rows, every=64):
        """The rows, as many as there is time for: the clock is read once for so many."""
        for number, row in enumerate(rows):
            if number % every == 0 and self.is_over():
                return
            yield row
