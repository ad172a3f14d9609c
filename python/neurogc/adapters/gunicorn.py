"""gunicorn: the application that a worker loads, and what workers inherit of one that the master loads for them.

Workers of other servers (uvicorn's) are left to those.
"""

import gc

from .. import asgi, wsgi
from .._native import agent

# The workers that call their application by WSGI themselves. The names are looked for in the ancestry, because
# importing the classes would import gevent and its like.
_WSGI_WORKERS = {"SyncWorker", "ThreadWorker", "AsyncWorker", "TornadoWorker"}


def adapt(module, replace):
    if module.__name__ == "gunicorn.arbiter":
        replace(module.Arbiter, "spawn_worker", _sharing)
    elif module.__name__ == "gunicorn.workers.gasgi":
        replace(module.ASGIWorker, "load_wsgi", _counting_asgi)
    else:
        replace(module.Worker, "load_wsgi", _counting_wsgi)


def _counting_wsgi(load):
    def load_counting(self):
        load(self)
        if any(kind.__name__ in _WSGI_WORKERS for kind in type(self).__mro__):
            self.wsgi = wsgi.Middleware(self.wsgi)

    return load_counting


def _counting_asgi(load):
    def load_counting(self):
        load(self)
        self.asgi = asgi.Middleware(self.asgi)

    return load_counting


def _sharing(spawn_worker):
    def spawn_sharing(self, *args, **kwargs):
        # Without --preload a worker loads the application itself, and shares little.
        if agent.forks_workers(True, "server", self.cfg.preload_app) and not self.WORKERS:
            # What start-up has left would be kept by every worker for good. No request is being served yet.
            gc.collect()
        try:
            return spawn_worker(self, *args, **kwargs)
        finally:
            agent.forks_workers(False)

    return spawn_sharing
