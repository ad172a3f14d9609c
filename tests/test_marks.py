"""`request` and `step`, as context managers and as decorators of every kind of function."""

import asyncio
import contextlib
import functools
import gc
import inspect
import threading

import neurogc
import pytest


@pytest.mark.parametrize("mark", [neurogc.request, neurogc.step])
def test_a_block_is_one_request(requests, mark):
    with mark("name"):
        assert (requests.count, requests.in_flight) == (0, 1)
        with mark():
            assert requests.in_flight == 2
    assert (requests.count, requests.in_flight) == (2, 0)


def test_a_block_that_fails_is_one_request(requests):
    with pytest.raises(ZeroDivisionError), neurogc.request():
        1 / 0
    assert (requests.count, requests.in_flight) == (1, 0)


def test_an_async_block_is_one_request(requests):
    async def main():
        async with neurogc.request():
            assert requests.in_flight == 1

    asyncio.run(main())
    assert (requests.count, requests.in_flight) == (1, 0)


def test_one_object_may_be_used_again_and_inside_itself(requests):
    mark = neurogc.request()
    with mark:
        with mark:
            assert requests.in_flight == 2
    with mark:
        assert requests.in_flight == 1
    assert (requests.count, requests.in_flight) == (3, 0)


class OwnMark:
    """A mark that knows which thread or task began it, and notes the end of another one's."""

    mixed_up, ended = [], 0

    def __init__(self, name):
        self.owner = self._owner()

    @staticmethod
    def _owner():
        try:
            return asyncio.current_task()
        except RuntimeError:
            return threading.current_thread()

    def end(self):
        type(self).ended += 1
        if self.owner is not self._owner():
            self.mixed_up.append((self.owner, self._owner()))


@pytest.fixture
def own_marks(monkeypatch):
    class Fresh(OwnMark):
        mixed_up, ended = [], 0

    monkeypatch.setattr("neurogc._marks.Mark", Fresh)
    return Fresh


def test_threads_that_share_an_object_end_their_own_requests(own_marks):
    mark, all_in, first_out = neurogc.request("shared"), threading.Barrier(3), threading.Event()

    def serve(first):
        with mark:
            all_in.wait()
            # The one that came first goes first, too.
            with mark:
                pass
            if not first:
                first_out.wait()
        first_out.set()

    threads = [threading.Thread(target=serve, args=(number == 0,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert own_marks.mixed_up == [] and own_marks.ended == 6


def test_tasks_and_generators_that_share_an_object_end_their_own_requests(own_marks):
    mark = neurogc.request("shared")

    def steps():
        with mark:
            yield

    async def serve(gate, before):
        async with mark:
            await before.wait()
            with mark:
                await asyncio.sleep(0)
        gate.set()

    async def main():
        gates = [asyncio.Event() for _ in range(4)]
        gates[0].set()
        # Each waits for the one that came before it.
        await asyncio.gather(*[serve(gate, before) for before, gate in zip(gates, gates[1:])])

    asyncio.run(main())
    assert own_marks.mixed_up == [] and own_marks.ended == 6
    running = [steps() for _ in range(3)]
    begun = [next(each) or list(mark._marks.values())[-1][-1] for each in running]
    for each, own in zip(running, begun):
        left = [marks for marks in mark._marks.values() if own not in marks]
        each.close()
        assert list(mark._marks.values()) == left


def test_a_stack_of_contexts_ends_what_it_has_begun(requests):
    mark = neurogc.request()
    with contextlib.ExitStack() as stack:
        stack.enter_context(mark)
        stack.enter_context(mark)
        with mark:
            assert requests.in_flight == 3
        assert (requests.count, requests.in_flight) == (1, 2)
    assert (requests.count, requests.in_flight) == (3, 0)
    mark.__exit__()


@pytest.mark.parametrize("decorate", [neurogc.request, neurogc.request(), neurogc.step("name")])
def test_a_decorated_function_keeps_its_face(requests, decorate):
    @decorate
    def double(number: int, *, extra=0) -> int:
        """Doubles."""
        assert requests.in_flight == 1
        return number * 2 + extra

    assert double(2, extra=1) == 5
    assert (double.__name__, double.__doc__) == ("double", "Doubles.")
    assert str(inspect.signature(double)) == "(number: int, *, extra=0) -> int"
    assert (requests.count, requests.in_flight) == (1, 0)


def test_a_decorated_coroutine_function_is_counted_while_it_runs(requests):
    @neurogc.request()
    async def wait(gate):
        await gate.wait()
        return "done"

    async def main():
        gate = asyncio.Event()
        tasks = [asyncio.ensure_future(wait(gate)) for _ in range(3)]
        await asyncio.sleep(0)
        assert (requests.count, requests.in_flight) == (0, 3)
        tasks[0].cancel()
        await asyncio.wait(tasks[:1])
        assert (requests.count, requests.in_flight) == (1, 2)
        gate.set()
        assert await asyncio.gather(*tasks[1:]) == ["done", "done"]

    assert inspect.iscoroutinefunction(wait)
    asyncio.run(main())
    assert (requests.count, requests.in_flight) == (3, 0)


def test_a_decorated_generator_is_counted_until_it_is_exhausted(requests):
    @neurogc.request()
    def echo():
        got = yield "first"
        yield got
        return "end"

    assert inspect.isgeneratorfunction(echo)
    generator = echo()
    assert requests.in_flight == 0
    assert next(generator) == "first"
    assert requests.in_flight == 1
    assert generator.send("sent") == "sent"
    with pytest.raises(StopIteration) as stop:
        next(generator)
    assert stop.value.value == "end"
    assert (requests.count, requests.in_flight) == (1, 0)


def test_a_decorated_generator_that_is_dropped_is_over(requests):
    @neurogc.request()
    def endless():
        while True:
            yield

    generator = endless()
    next(generator)
    assert requests.in_flight == 1
    del generator
    assert (requests.count, requests.in_flight) == (1, 0)


def test_a_decorated_async_generator_hands_on_what_is_sent_and_thrown(requests):
    seen = []

    @neurogc.request()
    async def echo():
        try:
            seen.append((yield "first"))
            try:
                yield "second"
            except KeyError as error:
                seen.append(error)
            yield "third"
        finally:
            seen.append("closed")

    async def main():
        generator = echo()
        assert await generator.asend(None) == "first"
        assert requests.in_flight == 1
        assert await generator.asend("sent") == "second"
        thrown = KeyError()
        assert await generator.athrow(thrown) == "third"
        await generator.aclose()
        assert seen == ["sent", thrown, "closed"]
        assert [value async for value in echo()] == ["first", "second", "third"]

    assert inspect.isasyncgenfunction(echo)
    asyncio.run(main())
    assert (requests.count, requests.in_flight) == (2, 0)


def test_methods_partials_and_callable_objects_can_be_decorated(requests):
    class Handler:
        @neurogc.request()
        async def method(self):
            return requests.in_flight

        async def __call__(self):
            return requests.in_flight

    async def plain(number):
        return requests.in_flight

    marked_partial = neurogc.request()(functools.partial(plain, 1))
    marked_object = neurogc.request()(Handler())
    assert inspect.iscoroutinefunction(marked_partial)
    assert inspect.iscoroutinefunction(marked_object)
    for call in (Handler().method, marked_partial, marked_object):
        assert asyncio.run(call()) == 1
    assert neurogc.request()(len)([1, 2]) == 2
    assert (requests.count, requests.in_flight) == (4, 0)


def test_marks_make_no_garbage(requests):
    @neurogc.request()
    def function():
        return 1

    @neurogc.request()
    def generator():
        yield 1

    def use():
        function()
        list(generator())
        with neurogc.request():
            pass

    use()
    gc.collect()
    for _ in range(100):
        use()
    assert gc.collect() == 0
