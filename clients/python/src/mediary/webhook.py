"""Verification of webhooks, as Standard Webhooks 1.0 defines it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Mapping


def verify_webhook(headers: Mapping[str, str], body: bytes, key: str, *, tolerance: float = 300) -> bool:
    """Returns ``True`` if the webhook was signed with ``key`` at most ``tolerance`` seconds ago.

    ``key`` is a secret of the account (``whsec_…``) or the public key of the service (``whpk_…``), and ``body`` the raw
    bytes. Bad headers give ``False``; a bad key raises ``ValueError``.
    """
    prefix, _, encoded_key = key.partition("_")
    if prefix not in ("whsec", "whpk"):
        raise ValueError("the key must begin with whsec_ or whpk_")
    key_bytes = base64.b64decode(encoded_key, validate=True)

    received = {name.lower(): value for name, value in headers.items()}
    message_id = received.get("webhook-id", "")
    timestamp = received.get("webhook-timestamp", "")
    if not message_id or not timestamp.isascii() or not timestamp.isdigit():
        return False
    if abs(time.time() - int(timestamp[:15])) > tolerance:
        return False

    signed_bytes = f"{message_id}.{timestamp}.".encode() + body
    entries = (entry.partition(",") for entry in received.get("webhook-signature", "").split(" "))
    return any(_matches(prefix, key_bytes, signed_bytes, version, signature) for version, _, signature in entries)


def _matches(prefix: str, key_bytes: bytes, signed_bytes: bytes, version: str, signature: str) -> bool:
    if (prefix, version) not in (("whsec", "v1"), ("whpk", "v1a")):
        return False
    try:
        decoded = base64.b64decode(signature, validate=True)
    except ValueError:
        return False
    if prefix == "whsec":
        return hmac.compare_digest(hmac.digest(key_bytes, signed_bytes, hashlib.sha256), decoded)

    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(key_bytes).verify(decoded, signed_bytes)
    except InvalidSignature:
        return False
    return True
