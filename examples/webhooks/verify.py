"""Verifies webhooks of Mediary (docs/callbacks.md). Python 3.11 or newer."""

import base64, hashlib, hmac, time


def verify(headers, body, key, tolerance=300):
    """body: bytes; key: "whsec_…" or "whpk_…" (the latter needs the package cryptography)."""
    names = ("webhook-id", "webhook-timestamp", "webhook-signature")
    id, at, signatures = (headers.get(name) or "" for name in names)
    try:
        if not id or abs(time.time() - int(at)) > tolerance:
            return False
        signed = f"{id}.{at}.".encode() + body
    except (ValueError, OverflowError):
        return False
    raw = base64.b64decode(key.split("_", 1)[1])
    for version, _, signature in (entry.partition(",") for entry in signatures.split(" ")):
        try:
            given = base64.b64decode(signature)
        except ValueError:
            continue
        if version == "v1" and key.startswith("whsec_"):
            if hmac.compare_digest(hmac.new(raw, signed, hashlib.sha256).digest(), given):
                return True
        if version == "v1a" and key.startswith("whpk_"):
            from cryptography.exceptions import InvalidSignature
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

            try:
                Ed25519PublicKey.from_public_bytes(raw).verify(given, signed)
                return True
            except InvalidSignature:
                pass
    return False
