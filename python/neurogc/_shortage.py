"""A MemoryError on its way through a request: where a server makes an answer of every error, it ends no thread."""

# What wants to know of it, while heap dumps are written for it.
watcher = None


def noticed():
    """Called while the error is handled; it goes on as it is."""
    if watcher is not None:
        watcher()


def noticing(handle):
    """A framework's handler of errors, `handle(self, error)`."""

    def handle_and_notice(self, error, *args, **kwargs):
        if isinstance(error, MemoryError):
            noticed()
        return handle(self, error, *args, **kwargs)

    return handle_and_notice
