"""The signature of a request: who knows the secret can tell that it came from here, and when."""

import hashlib
import hmac
import secrets

HEADER = "Handoffaudit-Signature"


def new_secret() -> str:
    """32 random bytes in hex."""
    return secrets.token_hex(32)


def signature(secret: str, body: bytes, at: int) -> str:
    """`t=…,v1=…`: HMAC-SHA256 of the time, in seconds since 1970, a dot, and the body."""
    signed = hmac.new(secret.encode(), b"%d." % at + body, hashlib.sha256)
    return f"t={at},v1={signed.hexdigest()}"
