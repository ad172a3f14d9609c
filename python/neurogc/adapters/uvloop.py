"""uvloop: it polls in C, so its turns are not seen. The end of a request asks it to come by (see `_loops`), and a timer
does so once a second, for what is asked from outside while the loop is idle.
"""

from weakref import ref

from .._native import agent

# How often an idle loop looks whether something is to be done in its thread, in seconds.
BEAT = 1.0


def adapt(module, replace):
    def beating(new_event_loop):
        def beating_new_event_loop():
            loop = new_event_loop()
            _beat(ref(loop))
            return loop

        return beating_new_event_loop

    replace(module, "new_event_loop", beating)


def _beat(weak):
    loop = weak()
    if loop is not None and not loop.is_closed() and agent.installed():
        if agent.is_due():
            agent.gap()
        loop.call_later(BEAT, _beat, weak)
