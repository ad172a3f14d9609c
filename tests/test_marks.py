"""`request` and `step`, as context managers and as decorators of every kind of function."""

import asyncio
import functools
import gc
import inspect

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
