"""The WSGI middleware alone: bodies of every kind keep their nature, and the request ends with them."""

import gc
from wsgiref.util import FileWrapper
from wsgiref.validate import validator

import pytest
from neurogc.wsgi import Middleware


def start_response(status, headers, exc_info=None):
    return None


def answering(body):
    return Middleware(lambda environ, start: body)


def test_the_middleware_passes_for_the_application():
    def app(environ, start):
        pass

    app.config = "visible"
    assert Middleware(app).config == "visible"


def test_a_list_stays_a_list_and_ends_with_close(requests):
    body = answering([b"one", b"two"])({}, start_response)
    assert isinstance(body, list)
    assert (len(body), b"".join(body)) == (2, b"onetwo")
    assert body == [b"one", b"two"]
    assert (requests.count, requests.in_flight) == (0, 1)
    body.close()
    assert (requests.count, requests.in_flight) == (1, 0)


def test_a_body_that_is_dropped_ends_the_request(requests):
    for kind in (list, tuple, iter):
        body = answering(kind([b"one"]))({}, start_response)
        assert requests.in_flight == 1
        del body
        assert requests.in_flight == 0


def test_a_generator_is_in_flight_until_it_is_used_up(requests):
    body = iter(answering(part for part in (b"one", b"two"))({}, start_response))
    assert [next(body), next(body)] == [b"one", b"two"]
    assert requests.in_flight == 1
    with pytest.raises(StopIteration):
        next(body)
    assert (requests.count, requests.in_flight) == (1, 0)
    body.close()
    assert requests.count == 1


def test_closing_reaches_the_body(requests):
    closed = []

    def parts():
        try:
            yield b"one"
            yield b"two"
        finally:
            closed.append(requests.in_flight)

    body = answering(parts())({}, start_response)
    assert next(iter(body)) == b"one"
    body.close()
    assert closed == [1]
    assert (requests.count, requests.in_flight) == (1, 0)


def test_a_body_that_fails_ends_the_request(requests):
    def parts():
        yield b"one"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(answering(parts())({}, start_response))
    assert (requests.count, requests.in_flight) == (1, 0)


def test_an_application_that_fails_ends_the_request(requests):
    def app(environ, start):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Middleware(app)({}, start_response)
    assert (requests.count, requests.in_flight) == (1, 0)


def test_a_sized_body_keeps_its_size():
    assert len(answering((b"one",))({}, start_response)) == 1
    with pytest.raises(TypeError):
        len(answering(iter([b"one"]))({}, start_response))


def test_attributes_of_the_body_stay_in_reach():
    class Response:
        status_code = 200

        def __iter__(self):
            return iter([b"one"])

    body = answering(Response())({}, start_response)
    assert (body.status_code, list(body)) == (200, [b"one"])
    assert not hasattr(body, "missing")


def test_a_file_wrapper_stays_the_very_object_that_the_server_sends_by_itself(requests, tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    file = open(tmp_path / "file", "rb")
    wrapped = FileWrapper(file)
    body = answering(wrapped)({"wsgi.file_wrapper": FileWrapper}, start_response)
    assert body is wrapped
    assert b"".join(body) == b"content"
    assert requests.in_flight == 1
    body.close()
    assert file.closed
    del body, wrapped
    assert (requests.count, requests.in_flight) == (1, 0)


def test_a_file_wrapper_that_is_no_class_gets_its_object_back(requests, tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    with open(tmp_path / "file", "rb") as file:
        body = answering(file)({"wsgi.file_wrapper": lambda file, size: file}, start_response)
        assert body is file
        del body
    del file
    assert (requests.count, requests.in_flight) == (1, 0)


def test_a_private_sign_of_the_server_passes(requests):
    sign = object()
    assert answering(sign)({}, start_response) is sign
    assert (requests.count, requests.in_flight) == (1, 0)


def test_the_write_callable_passes():
    written = []

    def app(environ, start):
        start("200 OK", [])(b"one")
        return []

    Middleware(app)({}, lambda status, headers: written.append)
    assert written == [b"one"]


def test_two_layers_count_once(requests):
    body = Middleware(answering([b"one"]))({}, start_response)
    assert requests.in_flight == 1
    del body
    assert requests.count == 1


def test_the_standard_validator_has_no_complaint():
    import io

    def app(environ, start):
        start("200 OK", [("Content-Type", "text/plain")])
        return [b"one"]

    environ = {
        "REQUEST_METHOD": "GET",
        "SCRIPT_NAME": "",
        "PATH_INFO": "/",
        "QUERY_STRING": "",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(),
        "wsgi.errors": io.StringIO(),
        "wsgi.multithread": False,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    body = validator(Middleware(validator(app)))(environ, lambda status, headers, exc_info=None: None)
    assert list(body) == [b"one"]
    body.close()


def test_requests_make_no_garbage(requests):
    def failing(environ, start):
        raise ZeroDivisionError

    def serve():
        for kind in (list, tuple, iter):
            body = answering(kind([b"one"]))({}, start_response)
            list(body)
            body.close()
        try:
            Middleware(failing)({}, start_response)
        except ZeroDivisionError:
            pass

    serve()
    gc.collect()
    for _ in range(100):
        serve()
    assert gc.collect() == 0
