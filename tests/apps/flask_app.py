"""The test application on Flask; run as a program it is served by the server named as its argument."""

import sys
import time

import figures
from flask import Flask, Response, send_file

app = Flask(__name__)


@app.get("/ping")
def ping():
    return "pong"


@app.get("/figures")
def now():
    return figures.now()


@app.get("/boom")
def boom():
    raise RuntimeError("boom")


@app.get("/stream")
def stream():
    return Response(figures.line() for _ in range(5))


@app.get("/break")
def broken():
    def lines():
        yield b"first\n"
        raise RuntimeError("broken")

    return Response(lines())


@app.get("/endless")
def endless():
    def lines():
        while True:
            yield b"x" * 65536

    return Response(lines())


@app.get("/together")
def together():
    figures.arrive()
    while not figures.all_there(4):
        time.sleep(0.005)
    return figures.now()


@app.get("/file")
def file():
    return send_file(__file__)


def serve(server, port):
    if server == "waitress":
        import waitress

        waitress.serve(app, host="127.0.0.1", port=port, threads=6)
    elif server == "werkzeug":
        app.run(port=port, threaded=True)
    else:
        from wsgiref.simple_server import make_server

        make_server("127.0.0.1", port, app).serve_forever()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
