"""uvicorn: the application that a configuration loads, whatever the protocol, the workers or the reloader."""

from ..asgi import Middleware


def adapt(module, replace):
    def counting(load):
        def load_counting(self):
            load(self)
            self.loaded_app = Middleware(self.loaded_app)

        return load_counting

    replace(module.Config, "load", counting)
