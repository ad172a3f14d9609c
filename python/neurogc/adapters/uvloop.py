"""uvloop: tells the agent which loop runs; it polls in C, so its turns are not seen."""

from weakref import ref

from .._native import agent


def adapt(module, replace):
    def telling(run_forever):
        def telling_run_forever(self):
            agent.event_loop_runs(ref(self))
            return run_forever(self)

        return telling_run_forever

    replace(module.Loop, "run_forever", telling)
