"""An identity provider for tests: keys, tokens, and a server that publishes the keys and issues tokens, also for
assertions, which it verifies.
"""

from __future__ import annotations

import base64
import json
import threading
from contextlib import contextmanager, suppress
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from trimaran.node.runtime.clock import now_ms

ISSUER, AUDIENCE = "https://idp.example.org", "kafka"


@cache
def rsa_key(bits=2048):
    return rsa.generate_private_key(65537, bits)


@cache
def other_rsa_key():
    return rsa.generate_private_key(65537, 2048)


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


def pem(key, passphrase=None):
    """Returns the private key as a PEM text, encrypted if there is a passphrase."""
    closed = serialization.NoEncryption()
    if passphrase is not None:
        closed = serialization.BestAvailableEncryption(passphrase.encode())
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, closed).decode()


def granting(idp, key=None, algorithm="RS256", issuer="client-of-ours"):
    """Returns the judge of a token endpoint: it issues a token for the subject of the assertion in the form, if the
    assertion is signed by the key, intended for this endpoint, and valid now.
    """

    def answer(body):
        form = dict(parse_qsl(body.decode(), strict_parsing=True))
        assertion = form.get("assertion") or form["client_assertion"]
        try:
            said = jwt.decode(
                assertion,
                (key or rsa_key()).public_key(),
                algorithms=[algorithm],
                audience=f"{idp.url}/token",
                issuer=issuer,
                options={
                    "require": ["exp", "iat", "nbf", "iss", "sub", "aud"],
                    "verify_iat": False,  # iat limits nothing (RFC 7519, section 4.1.6)
                },
            )
        except jwt.PyJWTError:
            return 400, b'{"error": "invalid_grant", "error_description": "it is of no use"}'
        given = {"access_token": token(sub=said["sub"]), "expires_in": 600}
        return 200, json.dumps(given).encode()

    return answer


class Provider:
    """The server of the provider. `answers` by path: bytes, a status with bytes, or a function that writes them;
    `judges` by path: functions from the body to status and bytes. `asked` has the received requests: path, headers and
    body. `headers` are sent with each answer.
    """

    def __init__(self):
        self.answers = {}
        self.judges = {}
        self.asked = []
        self.headers = {}
        self.url = ""


@contextmanager
def provider(tls=None):
    """Runs a provider at localhost, with https if there is a context of a server."""
    state = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self._answer(b"")

        def do_POST(self):
            self._answer(self.rfile.read(int(self.headers["Content-Length"])))

        def _answer(self, body):
            state.asked.append((self.path, dict(self.headers), body))
            answer = state.answers.get(self.path)
            status = 200 if answer is not None else 404
            if (judge := state.judges.get(self.path)) is not None:
                answer = judge(body)
            if isinstance(answer, tuple):
                status, answer = answer
            self.send_response_only(status)
            for name, value in {"Date": self.date_time_string(), **state.headers}.items():
                self.send_header(name, value)
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
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        state.url = f"https://localhost:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
