"""The ASGI middleware alone: where a request begins and ends, and what it leaves behind."""

import asyncio
import gc
import inspect

import neurogc
import pytest
from neurogc.asgi import Middleware

START = {"type": "http.response.start", "status": 200, "headers": []}
LAST = {"type": "http.response.body", "body": b"end"}


async def nothing():
    return {"type": "http.request"}


def call(app, scope=None, send=None):
    """Runs one request to its end and returns the messages that the server got."""
    sent = []

    async def collect(message):
        sent.append(message)

    asyncio.run(app({"type": "http"} if scope is None else scope, nothing, send or collect))
    return sent


def test_the_middleware_is_found_from_the_package():
    assert neurogc.asgi.Middleware is Middleware


def test_servers_take_it_for_an_application():
    async def app(scope, receive, send):
        pass

    app.state = "visible"
    assert inspect.iscoroutinefunction(Middleware(app).__call__)
    assert Middleware(app).state == "visible"
    assert Middleware(app).app is app


def test_the_request_ends_with_the_last_byte_and_not_before(requests):
    seen = []

    async def app(scope, receive, send):
        for message in (START, {"type": "http.response.body", "body": b"part", "more_body": True}, LAST):
            await send(message)
            seen.append((requests.count, requests.in_flight))

    assert call(Middleware(app))[-1] is LAST
    assert seen == [(0, 1), (0, 1), (1, 0)]
    assert (requests.count, requests.in_flight) == (1, 0)


def test_the_last_byte_counts_when_the_server_took_it(requests):
    seen = []

    async def app(scope, receive, send):
        await send(START)
        await send(LAST)

    async def slow(message):
        await asyncio.sleep(0)
        seen.append(requests.in_flight)

    call(Middleware(app), send=slow)
    assert seen == [1, 1]


def test_an_application_that_returns_early_or_fails_ends_the_request(requests):
    async def silent(scope, receive, send):
        pass

    async def failing(scope, receive, send):
        await send(START)
        raise ZeroDivisionError

    call(Middleware(silent))
    with pytest.raises(ZeroDivisionError):
        call(Middleware(failing))
    assert (requests.count, requests.in_flight) == (2, 0)


def test_a_send_that_fails_reaches_the_application(requests):
    async def app(scope, receive, send):
        with pytest.raises(OSError, match="gone"):
            await send(LAST)
        assert requests.in_flight == 1

    async def broken(message):
        raise OSError("gone")

    call(Middleware(app), send=broken)
    assert (requests.count, requests.in_flight) == (1, 0)


def test_a_cancelled_request_is_over(requests):
    async def app(scope, receive, send):
        await asyncio.sleep(60)

    async def main():
        task = asyncio.ensure_future(Middleware(app)({"type": "http"}, nothing, nothing))
        await asyncio.sleep(0)
        assert requests.in_flight == 1
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(main())
    assert (requests.count, requests.in_flight) == (1, 0)


def test_an_abandoned_coroutine_is_over(requests):
    async def app(scope, receive, send):
        await _Forever()

    coroutine = Middleware(app)({"type": "http"}, nothing, nothing)
    coroutine.send(None)
    assert requests.in_flight == 1
    del coroutine
    assert (requests.count, requests.in_flight) == (1, 0)


class _Forever:
    def __await__(self):
        yield


@pytest.mark.parametrize("kind", ["websocket", "lifespan"])
def test_other_protocols_pass_through(requests, kind):
    passed = []

    async def app(*arguments):
        passed.extend(arguments)
        assert requests.in_flight == 0

    scope = {"type": kind}

    async def send(message):
        pass

    call(Middleware(app), scope, send)
    assert passed == [scope, nothing, send]
    assert scope == {"type": kind}
    assert requests.count == 0


def test_two_layers_count_once(requests):
    seen = []

    async def app(scope, receive, send):
        seen.append(requests.in_flight)

    call(Middleware(Middleware(app)))
    # A framework hands a copy of the scope to what is mounted below it.
    async def mounting(scope, receive, send):
        await Middleware(app)(dict(scope), receive, send)

    call(Middleware(mounting))
    assert seen == [1, 1]
    assert requests.count == 2


def test_requests_make_no_garbage(requests):
    async def app(scope, receive, send):
        await send(START)
        await send(LAST)

    async def failing(scope, receive, send):
        raise ZeroDivisionError

    async def send(message):
        pass

    async def main():
        gc.collect()
        for _ in range(200):
            await Middleware(app)({"type": "http"}, nothing, send)
            try:
                await Middleware(failing)({"type": "http"}, nothing, send)
            except ZeroDivisionError:
                pass
        assert gc.collect() == 0

    asyncio.run(main())
    assert (requests.count, requests.in_flight) == (400, 0)
