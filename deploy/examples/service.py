"""A service to look at: it serves requests, makes cyclic garbage in each, and asks itself for something now and then."""

import http.server
import threading
import time
import urllib.request

PORT = 8000
RECORDS = [{"id": number, "tags": [str(number)]} for number in range(200_000)]


class Handler(http.server.BaseHTTPRequestHandler):
    """One answer to everything."""

    def do_GET(self):
        """Makes some objects that refer to each other, and answers."""
        nodes = [{} for _ in range(500)]
        for before, after in zip(nodes, nodes[1:] + nodes[:1]):
            before["next"] = after
        body = str(len(RECORDS)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Says nothing."""


def ask():
    """Twenty requests a second."""
    while True:
        time.sleep(0.05)
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/") as answer:
            answer.read()


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("0.0.0.0", PORT), Handler)
    threading.Thread(target=ask, daemon=True).start()
    server.serve_forever()
