"""Sign-in at an OpenID Connect issuer: redirect, code, PKCE, state, nonce, and what the content security policy allows."""

import base64
import hashlib
import http.server
import json
import os
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.parse
from pathlib import Path

from playwright.sync_api import expect

from support import BrowserTest, name

KEY = Path(__file__).parent / "../golden/oidc/rsa-key.base64"
AUDIENCE, CLIENT = "mediary", "console"


def base64url(bytes):
    return base64.urlsafe_b64encode(bytes).rstrip(b"=").decode()


def integers(der):
    """Returns all integers of a DER structure, in order."""
    numbers, at = [], 0
    while at < len(der):
        kind, length, at = der[at], der[at + 1], at + 2
        if length & 0x80:
            size = length & 0x7F
            length, at = int.from_bytes(der[at:at + size]), at + size
        content = der[at:at + length]
        if kind in (0x30, 0x04):
            numbers += integers(content)
        elif kind == 0x02:
            numbers.append(int.from_bytes(content))
        at += length
    return numbers


class SigningKey:
    """RSA key that signs with RS256."""

    def __init__(self):
        numbers = [number for number in integers(base64.b64decode(KEY.read_text())) if number > 1]
        self.modulus, self.exponent, self.secret = numbers[:3]
        self.size = (self.modulus.bit_length() + 7) // 8

    def public(self):
        """Returns the public key as a JSON Web Key."""
        parts = {"n": self.modulus.to_bytes(self.size), "e": self.exponent.to_bytes(3)}
        return {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "1", **{key: base64url(part) for key, part in parts.items()}}

    def token(self, claims):
        """Returns a JSON Web Token with these claims."""
        text = ".".join(base64url(json.dumps(part).encode()) for part in ({"alg": "RS256", "typ": "JWT", "kid": "1"}, claims))
        info = bytes.fromhex("3031300d060960864801650304020105000420") + hashlib.sha256(text.encode()).digest()
        padded = b"\0\1" + b"\xff" * (self.size - len(info) - 3) + b"\0" + info
        signature = pow(int.from_bytes(padded), self.secret, self.modulus).to_bytes(self.size)
        return f"{text}.{base64url(signature)}"


class Issuer:
    """Issuer that signs everyone in at once, and checks what the console sends."""

    def __init__(self):
        self.key = SigningKey()
        self.subject = name("subject")
        # Fields that a test adds to the next id token, and to the next response of the authorization endpoint.
        self.claims, self.response = {}, {}
        # Authorization requests, and those whose code was not used yet by code.
        self.requests, self.codes = [], {}
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                url = urllib.parse.urlsplit(self.path)
                query = dict(urllib.parse.parse_qsl(url.query))
                if url.path == "/.well-known/openid-configuration":
                    self.reply(200, {"issuer": issuer.base, "authorization_endpoint": f"{issuer.base}/authorize",
                                     "token_endpoint": f"{issuer.base}/token", "jwks_uri": f"{issuer.base}/keys"})
                elif url.path == "/keys":
                    self.reply(200, {"keys": [issuer.key.public()]})
                elif url.path == "/authorize":
                    issuer.requests.append(query)
                    issuer.codes["the-code"] = query
                    response = {"code": "the-code", "state": query["state"], "iss": issuer.base, **issuer.response}
                    self.send_response(302)
                    self.send_header("Location", f"{query['redirect_uri']}?{urllib.parse.urlencode(response)}")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                else:
                    self.send_error(404)

            def do_POST(self):
                form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
                authorization = issuer.codes.pop(form.get("code"), None)
                challenge = base64url(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
                if authorization is None or form["grant_type"] != "authorization_code" or challenge != authorization["code_challenge"] \
                        or form["redirect_uri"] != authorization["redirect_uri"] or form["client_id"] != CLIENT:
                    return self.reply(400, {"error": "invalid_grant", "error_description": "The code is not valid."})
                now = int(time.time())
                common = {"iss": issuer.base, "sub": issuer.subject, "iat": now, "exp": now + 300, "name": "Ada of the issuer"}
                access = {**common, "aud": AUDIENCE}
                identity = {**common, "aud": CLIENT, "nonce": authorization["nonce"], **issuer.claims}
                self.reply(200, {"token_type": "Bearer", "access_token": issuer.key.token(access), "id_token": issuer.key.token(identity)})

            def reply(self, status, body):
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Access-Control-Allow-Origin", "*")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.base = f"http://127.0.0.1:{self.server.server_port}"


class SignIn(BrowserTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.issuer = Issuer()
        cls.directory = tempfile.TemporaryDirectory()
        settings = {"MEDIARY_AUTH__OIDC__ISSUER": cls.issuer.base, "MEDIARY_AUTH__OIDC__AUDIENCE": AUDIENCE,
                    "MEDIARY_AUTH__OIDC__CLIENT_ID": CLIENT, "MEDIARY_ADMIN_TOKEN": "sign-in-test-administrator"}
        command = [os.environ["BROWSER_SERVICE"], "serve", "--listen", "127.0.0.1:0", "--data-dir", cls.directory.name]
        cls.service = subprocess.Popen(command, env={**os.environ, **settings}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        cls.base = next(line[line.index("http://127"):].split()[0].rstrip("/,") for line in cls.service.stdout if "http://127" in line)
        threading.Thread(target=cls.service.stdout.read, daemon=True).start()

    @classmethod
    def tearDownClass(cls):
        cls.service.terminate()
        cls.service.wait()
        cls.issuer.server.shutdown()
        cls.directory.cleanup()
        super().tearDownClass()

    def setUp(self):
        super().setUp()
        self.issuer.claims, self.issuer.response = {}, {}

    def open_sign_in(self, path="/tasks", **options):
        page = self.page(path, base=self.base, hosts=(self.issuer.base,), **options)
        page.get_by_role("button", name="Sign in").first.click()
        return page, page.get_by_role("dialog")

    def test_a_person_signs_in_at_the_issuer_and_returns_to_the_page(self):
        page, dialog = self.open_sign_in()
        dialog.get_by_role("button", name="Sign in at 127.0.0.1").click()
        expect(page.get_by_role("heading", name="Tasks", exact=True)).to_be_visible()
        expect(page.locator(".account")).to_contain_text("Ada of the issuer")
        # The URL has neither the code nor the state, and the token is stored like a pasted one.
        self.assertEqual(page.url, f"{self.base}/#/tasks")
        stored = page.evaluate("Object.keys(sessionStorage)")
        self.assertEqual(stored, ["mediary.token"])
        request = self.issuer.requests[-1]
        self.assertEqual((request["response_type"], request["code_challenge_method"], request["client_id"]), ("code", "S256", CLIENT))
        page.reload()
        expect(page.locator(".account")).to_contain_text("Ada of the issuer")

    def test_invalid_responses_are_refused(self):
        for fields, claims, reason in (
            ({"iss": "http://127.0.0.1:1"}, {}, "from another issuer"),
            ({"error": "access_denied", "error_description": "Not today."}, {}, "Not today."),
            ({"code": "stolen"}, {}, "The code is not valid."),
            ({}, {"nonce": "another"}, "does not belong to this sign-in"),
        ):
            self.issuer.response, self.issuer.claims = fields, claims
            page, dialog = self.open_sign_in(allowed=(400,))
            dialog.get_by_role("button", name="Sign in at 127.0.0.1").click()
            expect(page.get_by_role("alert")).to_contain_text(reason)
            self.assertEqual(page.evaluate("Object.keys(sessionStorage)"), [])
            self.assertNotIn("state=", page.url)

    def test_a_stray_response_does_not_end_a_sign_in_in_progress(self):
        # Given a sign-in whose response has another state
        self.issuer.response = {"state": "another"}
        page, dialog = self.open_sign_in()
        dialog.get_by_role("button", name="Sign in at 127.0.0.1").click()
        expect(page.get_by_role("alert")).to_contain_text("does not belong to a sign-in of this tab")
        self.assertNotIn("state=", page.url)
        # When the response with the right state arrives afterwards
        expected = urllib.parse.urlencode({"code": "the-code", "state": self.issuer.requests[-1]["state"], "iss": self.issuer.base})
        page.goto(f"{self.base}/?{expected}")
        # Then the person is signed in, on the page where the sign-in started
        expect(page.locator(".account")).to_contain_text("Ada of the issuer")
        self.assertEqual(page.url, f"{self.base}/#/tasks")
        self.assertEqual(page.evaluate("Object.keys(sessionStorage)"), ["mediary.token"])
        # And the same response is not accepted twice
        page.goto(f"{self.base}/?{expected}")
        expect(page.get_by_role("alert")).to_contain_text("does not belong to a sign-in of this tab")

    def test_a_response_without_a_sign_in_is_refused(self):
        page = self.page("/nodes", base=self.base)
        page.goto(f"{self.base}/?code=stolen&state=forged")
        expect(page.get_by_role("alert")).to_contain_text("does not belong to a sign-in of this tab")
        self.assertEqual(page.evaluate("Object.keys(sessionStorage)"), [])

    def test_a_token_can_still_be_pasted_and_other_origins_stay_closed(self):
        page, dialog = self.open_sign_in()
        dialog.get_by_label("Token", exact=True).fill("sign-in-test-administrator")
        page.keyboard.press("Enter")
        expect(dialog).to_have_count(0)
        policy = page.request.get(self.base + "/").headers["content-security-policy"]
        self.assertIn(f"connect-src 'self' {self.issuer.base};", policy)


if __name__ == "__main__":
    unittest.main()
