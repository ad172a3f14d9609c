"""Who holds the memory of GPUs: every block of the allocator by its use, and other tensors by the path that holds them."""

import gc
import types
from collections import deque
from time import perf_counter

from . import allocator
from .blocks import BUFFERS, GRADIENTS, OPTIMIZER, OTHER, PARAMETERS, Blocks
from .deadline import Deadline
from .graphs import Graphs
from .paths import Paths, slots, written

# Holders in a report.
_MOST = 60

_CONTAINERS = (list, dict, set, frozenset, tuple, deque)
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class Look:
    """One look at everything, for which there is so much time. Nothing of it outlives the call that makes it.

    `allocator.Unasked` is raised where the allocator is not asked for its blocks.
    """

    def __init__(self, seconds):
        self.deadline = Deadline(seconds)
        self.tensor, self.module, self.optimizer, self.parameter, self.dataset = allocator.classes()
        self.blocks = Blocks(allocator.segments(seconds / 2), self.deadline)
        self.graphs = Graphs(self.blocks, self.tensor, self.deadline)
        self.complete = True
        self.tensors, self.modules, self.optimizers = self._find()
        # Gradients that belong to a graph hold their parameters, and these hold them.
        self.of_graphs = []
        self._met = set()
        self._claim_models()
        self._claim_optimizers()
        self.holders = self._find_holders()

    def _find(self):
        found = ([], [], [])
        # The classes of objects, not what they say of themselves: that may be code of the program.
        numbers = {}
        for one in self.deadline.rows(gc.get_objects(), 8192):
            kind = type(one)
            number = numbers.get(kind)
            if number is None:
                number = numbers[kind] = next(
                    (n for n, c in enumerate((self.tensor, self.module, self.optimizer)) if issubclass(kind, c)), -1
                )
            if number >= 0:
                found[number].append(one)
        return found

    def _claim(self, tensor, use):
        """Claims the block of a tensor, or those of the tensors that it stands for."""
        if not issubclass(type(tensor), self.tensor):
            return 0
        at = allocator.address(tensor) if allocator.is_ours(tensor) else 0
        if at:
            return self.blocks.claim(at, use)
        if type(tensor) in (self.tensor, self.parameter):
            return 0
        return sum(self._claim(inner, use) for inner in _inside(tensor) if inner is not tensor)

    def _claim_parameter(self, parameter):
        if id(parameter) in self._met:
            return
        self._met.add(id(parameter))
        self._claim(parameter, PARAMETERS)
        if parameter.is_leaf:
            gradient = parameter.grad
            if gradient is not None:
                self._claim(gradient, GRADIENTS)
                if gradient.grad_fn is not None:
                    self.of_graphs.append(gradient)

    def _claim_models(self):
        for module in self.deadline.rows(self.modules):
            # Not by attribute: a module may still be in the making.
            inside = vars(module)
            for parameter in list((inside.get("_parameters") or {}).values()):
                if parameter is not None:
                    self._claim_parameter(parameter)
            for buffer in list((inside.get("_buffers") or {}).values()):
                if buffer is not None:
                    self._claim(buffer, BUFFERS)
        for tensor in self.deadline.rows(self.tensors, 256):
            if issubclass(type(tensor), self.parameter):
                self._claim_parameter(tensor)

    def _claim_optimizers(self):
        for optimizer in self.deadline.rows(self.optimizers, 1):
            inside = vars(optimizer)
            for group in inside.get("param_groups") or ():
                for parameter in self.deadline.rows(list(group.get("params") or ()), 256):
                    if issubclass(type(parameter), self.tensor):
                        self._claim_parameter(parameter)
            waiting, depth = list((inside.get("state") or {}).values()), 0
            while waiting and depth < 6:
                below, depth = [], depth + 1
                for one in self.deadline.rows(waiting, 256):
                    if isinstance(one, dict):
                        below.extend(list(one.values()))
                    elif isinstance(one, (list, tuple)):
                        below.extend(one)
                    else:
                        self._claim(one, OPTIMIZER)
                waiting = below

    def _find_holders(self):
        kinds = {}

        def ends(kind):
            # What is inside a tensor is claimed by itself.
            known = kinds.get(kind)
            if known is None:
                known = kinds[kind] = issubclass(kind, self.tensor)
            return known

        wanted = [tensor for tensor in self.deadline.rows(self.tensors, 256) if self._is_wanted(tensor)]
        # Of what is left, some is for what follows.
        budget = Deadline(0.6 * self.deadline.left())
        paths = Paths(wanted, budget, ends)
        filled_by_hooks = self._hooked()
        groups, unheld = {}, []
        for tensor in self.deadline.rows(wanted, 32):
            found = paths.chain(tensor)
            if found is None:
                unheld.append(tensor)
                continue
            root, chain = found
            path = written(root, chain)
            group = groups.get(path)
            if group is None:
                group = groups[path] = Holder(path, *self._kind(chain, filled_by_hooks))
            group.tensors.append(tensor)
        ordered = sorted(groups.values(), key=lambda group: -len(group.tensors))
        if self.of_graphs:
            gradients = Holder("gradients of parameters", "gradient", None)
            gradients.tensors.extend(self.of_graphs)
            ordered.insert(0, gradients)
        for group in ordered:
            group.own = self._claim_all(group)
        for group in ordered:
            self._walk(group)
        # A tensor that a graph has saved has a Python object for as long; the rest is held from C++.
        rest = Holder("", "other", None)
        rest.tensors.extend(unheld)
        self._walk(rest)
        rest.own = self._claim_all(rest)
        self.blocks.claim_workspaces(allocator.workspace_sizes())
        self.complete = not (budget.passed or self.deadline.passed)
        found = [group for group in (*ordered, rest) if group.own + group.graph_bytes or group.graph_nodes > 1]
        return sorted(found, key=lambda group: -(group.own + group.graph_bytes))

    def _claim_all(self, group):
        return sum(self._claim(tensor, OTHER) for tensor in self.deadline.rows(group.tensors, 256))

    def _walk(self, group):
        for tensor in self.deadline.rows(group.tensors, 256):
            node = tensor.grad_fn
            if node is not None:
                found, nodes = self.graphs.walk(node)
                group.graph_bytes += found
                group.graph_nodes += nodes

    def _is_wanted(self, tensor):
        if not allocator.is_ours(tensor):
            return False
        number = self.blocks.at(allocator.address(tensor))
        return tensor.grad_fn is not None or (number is not None and number not in self.blocks.claimed)

    def _hooked(self):
        """Containers and objects that hooks of modules reach: what they fill."""
        found = set()
        for module in self.modules:
            inside = vars(module)
            for name in _HOOKS:
                for hook in list((inside.get(name) or {}).values()):
                    self._reach(hook, found, 3)
        return found

    def _reach(self, value, found, depth):
        if depth == 0 or id(value) in found:
            return
        kind = type(value)
        if kind is types.FunctionType:
            for cell in value.__closure__ or ():
                try:
                    self._reach(cell.cell_contents, found, depth - 1)
                except ValueError:
                    continue
            for one in value.__defaults__ or ():
                self._reach(one, found, depth - 1)
            module = value.__globals__
            for name in value.__code__.co_names:
                one = module.get(name)
                if isinstance(one, (list, dict, set, deque)):
                    found.add(id(one))
        elif kind is types.MethodType:
            if not issubclass(type(value.__self__), self.module):
                self._reach(value.__self__, found, depth - 1)
            self._reach(value.__func__, found, depth - 1)
        elif isinstance(value, (list, dict, set, deque)):
            found.add(id(value))
        elif hasattr(kind, "func") and hasattr(kind, "args"):
            for one in (value.func, *value.args):
                self._reach(one, found, depth - 1)
        elif not issubclass(kind, (self.tensor, self.module, type)):
            inside = getattr(value, "__dict__", None)
            if isinstance(inside, dict):
                found.add(id(value))
                for one in list(inside.values()):
                    if isinstance(one, (list, dict, set, deque)):
                        found.add(id(one))

    def _kind(self, chain, filled_by_hooks):
        """What kind of holder leads to the last object of a chain, and the bound of its container."""
        above = chain[:-1]
        bound = next((one.maxlen for one in above if type(one) is deque and one.maxlen is not None), None)
        if any(type(one) in (types.TracebackType, types.FrameType) for one in above):
            return "traceback", bound
        for one in above:
            kind = one if isinstance(one, type) else type(one)
            if self.dataset and issubclass(kind, self.dataset):
                return "dataset", bound
        if any(id(one) in filled_by_hooks for one in above):
            return "hook", bound
        if not above:
            return "variable", bound
        last, owner = above[-1], above[-2] if len(above) > 1 else None
        if isinstance(last, dict) and owner is not None and getattr(owner, "__dict__", None) is last:
            return "attribute", bound
        if isinstance(last, _CONTAINERS):
            return "container", bound
        if type(last) is types.CellType:
            return "variable", bound
        return "attribute", bound


def _inside(tensor):
    """What a tensor that stands for others has as attributes. Those of `DTensor` are in slots."""
    found = list(vars(tensor).values())
    for name in slots(type(tensor)):
        try:
            found.append(object.__getattribute__(tensor, name))
        except AttributeError:
            continue
    return found


class Holder:
    """Tensors that are held by the same path."""

    __slots__ = ("bound", "graph_bytes", "graph_nodes", "kind", "own", "path", "tensors")

    def __init__(self, path, kind, bound):
        self.path, self.kind, self.bound = path, kind, bound
        self.tensors = []
        self.own = self.graph_bytes = self.graph_nodes = 0

    def row(self):
        return {
            "path": self.path[:300],
            "kind": self.kind,
            "tensors": len(self.tensors),
            "bytes": self.own,
            "graph_bytes": self.graph_bytes,
            "graph_nodes": self.graph_nodes,
            "bound": self.bound,
        }


def report(seconds, whole):
    """Who holds the memory, as `wire::gpu::GpuReport` has it. The whole report also knows the card and its processes."""
    with allocator.plainly():
        look = Look(seconds)
        devices = [{"device": device, **figures} for device, figures in sorted(look.blocks.devices().items())]
        rows = [holder.row() for holder in look.holders[:_MOST]]
        complete = look.complete
        began = look.deadline.began
        del look
    if whole:
        from . import cards

        for device in devices:
            device.update(cards.of(device["device"], device["reserved_bytes"]))
    return {
        "devices": devices,
        "holders": rows,
        "took_ms": 1e3 * (perf_counter() - began),
        "complete": complete,
    }
