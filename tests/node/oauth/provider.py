"""An identity provider for tests: keys, tokens, and a server that publishes the keys and issues tokens."""

from __future__ import annotations

import base64
import json
import threading
from contextlib import contextmanager, suppress
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from trimaran.node.runtime.clock import now_ms

ISSUER, AUDIENCE = "https://idp.example.org", "kafka"


@cache
def rsa_key(bits=2048):
    return rsa.generate_private_key(65537, bits)


@cache
def ec_key():
    return ec.generate_private_key(ec.SECP256R1())


def jwk(key, key_id, **more):
    kind = jwt.algorithms.RSAAlgorithm if hasattr(key, "decrypt") else jwt.algorithms.ECAlgorithm
    return {**kind.to_jwk(key.public_key(), as_dict=True), "kid": key_id, **more}


def key_set(*keys):
    """Returns the keys as bytes; by default one RSA and one EC key."""
    return json.dumps({"keys": keys or (jwk(rsa_key(), "r"), jwk(ec_key(), "e"))}).encode()


def claims(**changes):
    now = now_ms() // 1000
    found = {
        "sub": "alice",
        "iss": ISSUER,
        "aud": AUDIENCE,
        "iat": now,
        "exp": now + 600,
        **changes,
    }
    return {name: value for name, value in found.items() if value is not None}


def token(key=None, algorithm="RS256", key_id="r", headers=None, **changes):
    headers = {"kid": key_id, **(headers or {})} if key_id is not None else headers
    return jwt.encode(claims(**changes), key or rsa_key(), algorithm, headers=headers)


def unsigned(header, payload, signature=b""):
    """Returns a token made of any parts."""
    parts = (json.dumps(header).encode(), json.dumps(payload).encode(), signature)
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


class Provider:
    """The server of the provider. `answers` by path: bytes, or a function that writes them; `asked` has the received
    requests: path, headers and body.
    """

    def __init__(self):
        self.answers = {}
        self.asked = []
        self.url = ""


@contextmanager
def provider():
    state = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self._answer(b"")

        def do_POST(self):
            self._answer(self.rfile.read(int(self.headers["Content-Length"])))

        def _answer(self, body):
            state.asked.append((self.path, dict(self.headers), body))
            answer = state.answers.get(self.path)
            self.send_response(200 if answer is not None else 404)
            self.end_headers()
            if callable(answer):
                with suppress(OSError):  # the client has closed the connection
                    answer(self.wfile.write)
            elif answer is not None:
                self.wfile.write(answer)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
