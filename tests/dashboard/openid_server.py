"""A small OpenID provider on a real socket, which signs real tokens, and whose answers a test can spoil."""

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key

CLIENT, SECRET = "handoffaudit", "a secret of the tests"
KEY, OTHER_KEY = (generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
ADA = {"sub": "ada", "email": "ada@example.com", "email_verified": True, "groups": ["reviewers"]}


def sign(claims: dict[str, Any], key: Any = KEY, algorithm: str = "RS256", kid: str = "one") -> str:
    return jwt.encode(claims, key, algorithm=algorithm, headers={"kid": kid})


def jwk_of(key: RSAPrivateKey, kid: str) -> dict[str, Any]:
    found = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
    return {**found, "kid": kid, "use": "sig", "alg": "RS256"}


@dataclass
class OpenIDServer:
    """The provider. A test sets the claims of the account, and functions that change what is sent."""

    url: str = ""
    account: dict[str, Any] = field(default_factory=lambda: dict(ADA))
    # Change the claims of the ID token, or replace the whole token.
    change: Callable[[dict[str, Any]], dict[str, Any]] = lambda claims: claims
    make_token: Callable[[dict[str, Any]], Any] = sign
    # Replace the answer at a path: status, headers and body.
    answers: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    # Send the answer at this path byte by byte, or break off in the middle.
    slow: str = ""
    broken: str = ""
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def discover(self) -> dict[str, Any]:
        addresses = {name: f"{self.url}/{path}" for name, path in ENDPOINTS.items()}
        return {"issuer": self.url, **addresses, "token_endpoint_auth_methods_supported": ["client_secret_post"]}

    def authorize(self, query: dict[str, str]) -> str:
        """Return the address to which the provider sends the browser back."""
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(12)
        self.codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def redeem(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        query = self.codes.pop(form.get("code", ""), None)
        if query is None:
            return 400, {"error": "invalid_grant"}
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        if challenge.decode().rstrip("=") != query["code_challenge"] or form["redirect_uri"] != query["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        if (form.get("client_id"), form.get("client_secret")) != (CLIENT, SECRET):
            return 401, {"error": "invalid_client"}
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": query["nonce"], **self.account}
        token = self.make_token(self.change(claims))
        return 200, {"access_token": "of the tests", "token_type": "Bearer", "expires_in": 300, "id_token": token}


ENDPOINTS = {
    "authorization_endpoint": "authorize",
    "token_endpoint": "token",
    "jwks_uri": "jwks",
    "userinfo_endpoint": "userinfo",
}


@contextmanager
def running() -> Iterator[OpenIDServer]:
    provider = OpenIDServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(path.query).items()}
            if path.path == "/authorize":
                self.send_response(302)
                self.send_header("Location", provider.authorize(query))
                self.end_headers()
                return
            self.answer(path.path, 200, {
                "/.well-known/openid-configuration": provider.discover(),
                "/jwks": {"keys": [jwk_of(KEY, "one"), jwk_of(OTHER_KEY, "two")]},
                "/userinfo": provider.account,
            }[path.path])  # fmt: skip

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self.answer("/token", *provider.redeem({name: values[0] for name, values in parse_qs(body).items()}))

        def answer(self, path: str, status: int, content: dict[str, Any]) -> None:
            provider.asked.append(path)
            status, body = provider.answers.get(path, (status, json.dumps(content).encode()))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(OSError):
                if path == provider.broken:
                    body = body[:-1]
                    self.close_connection = True
                for at in range(len(body)) if path == provider.slow else ():
                    self.wfile.write(body[at : at + 1])
                    time.sleep(0.02)
                self.wfile.write(b"" if path == provider.slow else body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    provider.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
