"""Fills a fresh service for the contract test, and prints the tokens of its callers as shell variables.

Resources have the names of the examples in the document, so that every operation finds what it needs. The ids that the service
chooses are written to the file FIXTURE for hooks.py, with spare resources for operations that change or delete them.

    prepare.py BASE ADMIN_TOKEN FIXTURE
"""

import base64
import http.server
import io
import json
import struct
import sys
import threading
import time
import urllib.request
import zipfile

BASE, ADMIN, FIXTURE = sys.argv[1:4]


def send(method, path, body=None, token=ADMIN, content_type="application/json"):
    """Sends a request that must succeed; returns the JSON of the response."""
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    url = path if path.startswith("http") else BASE + path
    request = urllib.request.Request(url, data=data, method=method)
    request.add_header("Content-Type", content_type)
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read() or b"null")


def user(name):
    """Creates a user; returns its id and a token."""
    created = send("POST", "/admin/users", {"name": name, "email": f"{name}@acme.example", "isApproved": True})
    token = send("POST", f"/admin/users/{created['id']}/tokens", {"name": "contract test"})
    return created["id"], token["token"]


def create_node(node):
    """Creates a node of acme with a version."""
    first = {"id": node, "name": node, "latest_version": {"version": "1.2.0"}, "supported_os": ["Linux"]}
    send("POST", "/publishers/acme/nodes", first, owner_token)


def upload_url(node, number):
    """Publishes a version of a node of acme; returns its upload URL."""
    version = {"node_version": {"version": number, "changelog": f"Everything new in {number}"}}
    return send("POST", f"/publishers/acme/nodes/{node}/versions", version, owner_token)["signedUrl"]


def upload(url):
    """Sends an archive."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as writer:
        writer.writestr("face_tools/__init__.py", "")
    send("PUT", url, archive.getvalue(), token=None, content_type="application/zip")


class Receiver(http.server.BaseHTTPRequestHandler):
    """Webhook receiver that accepts everything."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def finished_delivery():
    """Creates a task with a webhook, and returns the id of its delivery once it is delivered."""
    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    # The smallest bitmap: one pixel.
    pixel = struct.pack("<2s3II2i2H6I", b"BM", 58, 0, 54, 40, 1, 1, 1, 24, 0, 4, 0, 0, 0, 0) + b"\0\0\xff\0"
    job = {"image": base64.b64encode(pixel).decode(), "webhook_url": f"http://127.0.0.1:{receiver.server_port}/"}
    task = send("POST", "/proxy/imagevendor/v1/ai/image-upscaler-precision-v2", job, owner_token)["data"]["task_id"]
    while True:
        deliveries = send("GET", f"/tasks/{task}/deliveries", token=owner_token)["deliveries"]
        if deliveries and deliveries[-1]["state"] == "delivered":
            return deliveries[-1]["id"]
        time.sleep(0.1)


_, plain_token = user("plain")
owner, owner_token = user("owner")
guest, _ = user("guest")
send("POST", "/publishers", {"id": "acme", "name": "Acme"}, owner_token)
send("PUT", f"/publishers/acme/members/{guest}", {"role": "member"}, owner_token)
send("POST", "/publishers/acme/tokens", {"name": "release pipeline"}, owner_token)
create_node("face-tools")
for number in ("1.1.0", "1.3.0"):
    upload(upload_url("face-tools", number))

spares = {"publisherId": [f"spare-{n}" for n in range(20)], "nodeId": [f"spare-{n}" for n in range(60)]}
for publisher in spares["publisherId"]:
    send("POST", "/publishers", {"id": publisher, "name": publisher}, owner_token)
for node in spares["nodeId"]:
    create_node(node)
spares["userId"] = [user(f"spare-{n}")[0] for n in range(20)]
spares["ticket"] = [upload_url(node, "2.0.0").rsplit("/", 1)[1] for node in spares["nodeId"][:20]]

examples = {
    "userId": guest,
    "ticket": spares["ticket"][0],
    "delivery_id": finished_delivery(),
    "/admin tokenId": send("GET", f"/admin/users/{guest}/tokens")[0]["id"],
    "/publishers tokenId": send("GET", "/publishers/acme/tokens")[0]["id"],
}
with open(FIXTURE, "w", encoding="utf-8") as file:
    json.dump({"examples": examples, "spares": spares}, file)
print(f"tokens[owner]={owner_token} tokens[plain]={plain_token}")
