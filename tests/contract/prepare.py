"""Fills a fresh service with what the contract test asks for, and prints the tokens of its callers for the shell.

Names are those of the examples in the document, so that operations which need something to be there find it; ids that the
service makes up are written to a file, from which hooks.py makes examples.
"""

import io
import json
import sys
import urllib.request
import zipfile

BASE, ADMIN, THERE = sys.argv[1:4]


def send(method, path, body=None, token=ADMIN, content_type="application/json"):
    """Sends a request that must succeed; gives the JSON of its answer."""
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    url = path if path.startswith("http") else BASE + path
    request = urllib.request.Request(url, data=data, method=method)
    request.add_header("Content-Type", content_type)
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read() or b"null")


def user(name):
    """A new user and a token that speaks for it."""
    made = send("POST", "/admin/users", {"name": name, "email": f"{name}@acme.example", "isApproved": True})
    token = send("POST", f"/admin/users/{made['id']}/tokens", {"name": "contract test"})
    return made["id"], token["token"]


def publish(number):
    """Publishes a version of face-tools, archive and all."""
    version = {"node_version": {"version": number, "changelog": f"Everything new in {number}"}}
    signed = send("POST", "/publishers/acme/nodes/face-tools/versions", version)["signedUrl"]
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as writer:
        writer.writestr("face_tools/__init__.py", f"VERSION = '{number}'\n")
    send("PUT", signed, archive.getvalue(), token=None, content_type="application/zip")


owner, owner_token = user("owner")
_, plain_token = user("plain")
guest, guest_token = user("guest")
send("POST", "/publishers", {"id": "acme", "name": "Acme"}, owner_token)
send("PUT", f"/publishers/acme/members/{guest}", {"role": "member"}, owner_token)
send("POST", "/publishers/acme/tokens", {"name": "release pipeline"}, owner_token)
for node in ("face-tools", "mask-tools"):
    first = {"id": node, "name": node, "latest_version": {"version": "1.0.0"}, "supported_os": ["Linux"]}
    send("POST", "/publishers/acme/nodes", first, owner_token)
for number in ("1.1.0", "1.2.0"):
    publish(number)
waiting = send("POST", "/publishers/acme/nodes/face-tools/versions", {"node_version": {"version": "2.0.0"}}, owner_token)

there = {
    "user_id": guest,
    "version_id": waiting["node_version"]["id"],
    "ticket": waiting["signedUrl"].rsplit("/", 1)[1],
    "/admin token_id": send("GET", f"/admin/users/{guest}/tokens")[0]["id"],
    "/publishers token_id": send("GET", "/publishers/acme/tokens")[0]["id"],
}
with open(THERE, "w", encoding="utf-8") as file:
    json.dump(there, file)
print(f"tokens[owner]={owner_token} tokens[plain]={plain_token}")
