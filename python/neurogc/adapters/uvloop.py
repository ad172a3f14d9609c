"""uvloop: tells the agent which loop there is; it polls in C, so its turns are not seen."""

from weakref import ref

from .._native import agent


def adapt(module, replace):
    def telling(new_event_loop):
        def telling_new_event_loop():
            loop = new_event_loop()
            agent.event_loop_runs(ref(loop))
            return loop

        return telling_new_event_loop

    replace(module, "new_event_loop", telling)
