"""Where collections fall in a training loop: what the scripts beside this file have in common."""

import gc
import json
import sys
import threading


class Node:
    """Garbage that only the collector can free."""

    def __init__(self):
        self.me = self


class Boundaries:
    """What was ordered at the ends of epochs and evaluations, one by one."""

    # A collection of everything, in the process or from a snapshot.
    EVERYTHING = ("full", "snapshot")

    def __init__(self):
        from neurogc.adapters import lightning, torch

        self.rows = []
        for adapter in (lightning, torch):
            adapter.agent = _Told(adapter.agent, self)

    def orders(self):
        import neurogc

        orders = neurogc.status()["conduct"]["orders"]
        return {kind: sum(each["count"] for each in orders if each["what"] == kind) for kind in self.EVERYTHING}

    def report(self, least):
        """Ends the script with an error where not so many boundaries have caused a collection of everything."""
        print(json.dumps({"orders at boundaries": self.rows}), flush=True)
        assert sum(any(row.values()) for row in self.rows) >= least, self.rows


class _Told:
    """The agent as an adapter sees it, with what it orders at boundaries."""

    def __init__(self, agent, boundaries):
        self._agent, self._boundaries = agent, boundaries

    def __getattr__(self, name):
        return getattr(self._agent, name)

    def boundary(self):
        before = self._boundaries.orders()
        self._agent.boundary()
        after = self._boundaries.orders()
        self._boundaries.rows.append({kind: after[kind] - before[kind] for kind in after})


def grown(kept, entries=50_000):
    """What a program keeps from an epoch or an evaluation: the heap grows, so that it is worth a collection of everything."""
    kept.append([[number] for number in range(entries)])


class Steps:
    """Notes every collection: between steps, in a gap of a step that computes without the interpreter, or inside."""

    def __init__(self):
        from torch.optim.optimizer import register_optimizer_step_post_hook

        self.count = 0
        self.places = dict.fromkeys(("between", "gap", "inside"), 0)
        self._main = threading.get_ident()
        register_optimizer_step_post_hook(self._step)
        gc.callbacks.append(self._collection)

    def _step(self, optimizer, args, kwargs):
        self.count += 1

    def _collection(self, phase, info):
        # A framework imports half of itself before the first step.
        if phase != "start" or self.count == 0:
            return
        caller = sys._getframe().f_back
        if caller is not None and caller.f_code.co_filename.endswith("neurogc/adapters/torch.py"):
            self.places["between"] += 1
        elif threading.get_ident() != self._main and caller is None:
            self.places["gap"] += 1
        else:
            self.places["inside"] += 1

    def work(self):
        """What a training step leaves behind besides tensors."""
        for _ in range(300):
            Node()

    def report(self, steps, boundaries=1, evaluates=False):
        """Prints what was seen, and ends the script with an error where it is not what should be.

        Evaluations have no steps: in a program that evaluates, CPython's own trigger collects meanwhile.
        """
        import neurogc

        status = neurogc.status()
        training = status["conduct"]["training"]
        seen = {"steps": self.count, **self.places, "boundaries": training["boundaries"], "policy": status["policy"], "degraded": status["degraded"]}
        print(json.dumps(seen), flush=True)
        assert self.count == steps, f"{self.count} of {steps} steps"
        assert status["degraded"] == [], status["degraded"]
        assert training["boundaries"] >= boundaries, "the ends of epochs were not seen"
        assert self.places["between"] > 0, "no collection fell between steps: the hook did not fire"
        assert evaluates or self.places["inside"] <= 0.1 * (self.places["between"] + self.places["gap"]), seen
