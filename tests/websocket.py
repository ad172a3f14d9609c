"""As much of a WebSocket as tests need to watch a hub."""

import base64
import json
import os
import socket
import struct
import time


class Refused(Exception):
    """The server did not open a WebSocket; the first argument is the status of its answer."""


class WebSocket:
    """A connection on which JSON goes both ways. One that is not read is a slow browser."""

    def __init__(self, port, path, *, token=None, headers=(), receive_buffer=None):
        self._socket = socket.socket()
        if receive_buffer:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.settimeout(10)
        self._socket.connect(("127.0.0.1", port))
        protocols = ["neurogc.v1", *([f"token.{token}"] if token else [])]
        lines = [
            f"GET {path} HTTP/1.1",
            f"Host: 127.0.0.1:{port}",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
            f"Sec-WebSocket-Protocol: {', '.join(protocols)}",
            *headers,
        ]
        self._socket.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        self._received = b""
        while b"\r\n\r\n" not in self._received:
            self._receive()
        head, _, self._received = self._received.partition(b"\r\n\r\n")
        self.head = head.decode()
        status = int(self.head.split()[1])
        if status != 101:
            self.close()
            raise Refused(status)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._socket.close()

    def _receive(self):
        part = self._socket.recv(1 << 16)
        if not part:
            raise ConnectionError("the hub closed the connection")
        self._received += part

    def _exactly(self, count):
        while len(self._received) < count:
            self._receive()
        taken, self._received = self._received[:count], self._received[count:]
        return taken

    def send(self, message):
        """Sends a message, masked with zeros: there is no proxy here that a real mask would protect."""
        body = json.dumps(message).encode()
        head = bytes([0x81, 0x80 | len(body)]) if len(body) < 126 else struct.pack(">BBH", 0x81, 0xFE, len(body))
        self._socket.sendall(head + bytes(4) + body)

    def receive(self):
        """The next message."""
        while True:
            first, length = self._exactly(2)
            if length == 126:
                (length,) = struct.unpack(">H", self._exactly(2))
            elif length == 127:
                (length,) = struct.unpack(">Q", self._exactly(8))
            body = self._exactly(length)
            if first & 0xF == 1:
                return json.loads(body)
            if first & 0xF == 8:
                raise ConnectionError("the hub hung up")

    def until(self, wanted, *, within=20):
        """The first message that is wanted."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            message = self.receive()
            if wanted(message):
                return message
        raise AssertionError(f"no such message came within {within} s")
