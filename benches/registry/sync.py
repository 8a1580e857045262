#!/usr/bin/env python3
"""Client that mirrors the whole registry while others publish, revise and ban. Uses only the standard library.

  sync.py                                               starts target/release/mediary on a fresh directory, and fills it
  sync.py --base http://127.0.0.1:8080 --token TOKEN    uses a running service, and adds nodes to it

The client reads every page once, and then polls for the nodes changed since the last poll. At the end, its copy must equal the
whole list, which is then read again. Exit code: 0 if it does, 1 if it does not, 2 if the test could not run.

Rules that every such client must follow:
- Sort by created_at, with include_banned (for administrators). Then no node leaves the list while it is read. A new node shifts
  later pages, so that a node may be read twice, but none is missed.
- A change is stamped with the arrival time of its request, but becomes visible later. Therefore each poll asks for changes
  since a few seconds (--overlap) before the service's time at the previous poll.
- Deleted nodes leave the list without notice. If `total` is smaller than the copy, read all ids again.
"""

import argparse
import email.utils
import http.client
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from datetime import datetime, timezone
from urllib.parse import urlencode, urlsplit

TOKEN = "token-of-the-sync-client"


class Failure(Exception):
    pass


class Api:
    """HTTP client with one persistent connection."""

    def __init__(self, base, token):
        self.connection = http.client.HTTPConnection(urlsplit(base).netloc, timeout=60)
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def call(self, method, path, body=None, expected=(200, 201, 204)):
        headers = dict(self.headers)
        if body is not None:
            headers["Content-Type"] = "application/json"
        while True:
            self.connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = self.connection.getresponse()
            text = response.read()
            if response.status not in (429, 503):
                break
            time.sleep(0.1)
        if response.status not in expected:
            raise Failure(f"{method} {path}: {response.status} {text.decode()}")
        return response, json.loads(text) if text else None


class Copy:
    """Local copy: nodes by id, including banned ones."""

    def __init__(self, base, token, limit, overlap):
        self.api, self.limit, self.overlap = Api(base, token), limit, overlap
        self.nodes, self.synced_at = {}, None
        self.pages, self.rounds, self.seen = 0, 0, 0

    def pull(self):
        """Synchronizes once: everything the first time, later only what changed since the previous call."""
        query = {"limit": self.limit, "sort": "created_at", "include_banned": "true", "latest": "true"}
        if self.synced_at is not None:
            since = datetime.fromtimestamp(self.synced_at - self.overlap, timezone.utc)
            query["timestamp"] = since.isoformat().replace("+00:00", "Z")
        service_time, page = None, 1
        while True:
            response, body = self.api.call("GET", "/nodes?" + urlencode(query | {"page": page}))
            if service_time is None:
                service_time = email.utils.parsedate_to_datetime(response.getheader("Date")).timestamp()
            self.pages += 1
            self.seen += len(body["nodes"])
            for node in body["nodes"]:
                self.nodes[node["id"]] = node
            if page >= body["totalPages"]:
                break
            page += 1
        self.synced_at = service_time
        self.rounds += 1

    def visible(self):
        return {id: node for id, node in self.nodes.items() if node["status"] == "NodeStatusActive"}


class Churn(threading.Thread):
    """Client that publishes, revises, bans and unbans at a fixed rate."""

    def __init__(self, base, token, number, rate, ids, seed):
        super().__init__(daemon=True)
        self.api, self.number, self.rate, self.ids = Api(base, token), number, rate, ids
        self.random, self.stop, self.done, self.failure = random.Random(seed), False, {}, None

    def run(self):
        try:
            started, count = time.monotonic(), 0
            while not self.stop:
                self.change_something(count)
                count += 1
                time.sleep(max(0, started + count / self.rate - time.monotonic()))
        except (Failure, OSError, http.client.HTTPException) as failure:
            self.failure = failure

    def change_something(self, count):
        """Sends a random change. 403 and 409 are no failures: the node may be banned, or not be banned."""
        publisher, node = self.random.choice(self.ids)
        path = f"/publishers/{publisher}/nodes"
        text = f"{self.number}-{count} " + "x" * self.random.randrange(200)
        kinds = ["create", "publish", "revise version", "revise version", "revise node", "revise node", "review", "ban", "unban", "unban"]
        kind = self.random.choice(kinds)
        if kind == "create":
            node = f"new-{self.number}-{count}"
            self.api.call("POST", path, {"id": node, "latest_version": {"version": "1.0.0", "changelog": text}})
            self.ids.append((publisher, node))
        elif kind == "publish":
            version = {"node": {"description": text}, "node_version": {"version": f"2.{self.number}.{count}"}}
            self.api.call("POST", f"{path}/{node}/versions", version, (201, 403))
        elif kind == "revise version":
            self.api.call("PUT", f"{path}/{node}/versions/1.0.0", {"changelog": text}, (200, 403))
        elif kind == "revise node":
            self.api.call("PUT", f"{path}/{node}", {"description": text, "tags": [str(count)]}, (200, 403))
        elif kind == "review":
            self.api.call("POST", f"/nodes/{node}/reviews?star={count % 5 + 1}", {}, (200, 403))
        else:
            self.api.call("POST", f"/admin/nodes/{node}/{kind}", {"reason": text}, (204, 409))
        self.done[kind] = self.done.get(kind, 0) + 1


def fill(base, token, nodes, publishers):
    """Creates the initial catalogue; returns (publisher, node) pairs."""
    api = Api(base, token)
    ids = []
    for number in range(publishers):
        api.call("POST", "/publishers", {"id": f"sync-{number}", "name": f"Sync {number}"}, (201, 409))
    for number in range(nodes):
        publisher, node = f"sync-{number % publishers}", f"sync-{number}"
        body = {"id": node, "description": f"Number {number}", "latest_version": {"version": "1.0.0", "changelog": "First"}}
        api.call("POST", f"/publishers/{publisher}/nodes", body, (201, 409))
        ids.append((publisher, node))
    return ids


def start(binary, directory):
    """Starts the service on a fresh directory; returns the process and its base URL."""
    environment = dict(os.environ, MEDIARY_ADMIN_TOKEN=TOKEN)
    command = [binary, "serve", "--listen", "127.0.0.1:0", "--data-dir", directory, "--log-level", "warn"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    for line in process.stdout:
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        if found:
            # Keep reading, so that the service never blocks on a full pipe.
            threading.Thread(target=process.stdout.read, daemon=True).start()
            return process, found.group()
    raise Failure("the service did not start")


def differences(name, copied, served):
    """Prints the differences between two catalogues; returns True if there are any."""
    missing, extra = served.keys() - copied.keys(), copied.keys() - served.keys()
    other = [id for id in served.keys() & copied.keys() if copied[id] != served[id]]
    for what, ids in [("missing", missing), ("extra", extra), ("different", other)]:
        if ids:
            print(f"DIFFERENT: {name}: {len(ids)} {what}, such as {sorted(ids)[0]}")
    for id in sorted(other)[:1]:
        print(f"  copy    {json.dumps(copied[id])}\n  service {json.dumps(served[id])}")
    return bool(missing or extra or other)


def run(base, token, options):
    ids = fill(base, token, options.nodes, options.publishers)
    churners = [
        Churn(base, token, number, options.rate / options.churners, list(ids[number :: options.churners]), number)
        for number in range(options.churners)
    ]
    for churner in churners:
        churner.start()
    copy = Copy(base, token, options.limit, options.overlap)
    started = time.monotonic()
    copy.pull()
    first = time.monotonic() - started
    print(f"initial copy: {len(copy.nodes)} nodes in {copy.pages} pages, {first:.2f} s, during {options.rate} changes per second")
    initial_pages, initial_seen, slowest = copy.pages, copy.seen, 0
    while time.monotonic() < started + options.seconds:
        round_started = time.monotonic()
        copy.pull()
        slowest = max(slowest, time.monotonic() - round_started)
        time.sleep(options.pause)
    for churner in churners:
        churner.stop = True
    for churner in churners:
        churner.join()
        if churner.failure:
            raise Failure(churner.failure)
    copy.pull()
    rounds, pages, seen = copy.rounds - 1, copy.pages - initial_pages, copy.seen - initial_seen
    print(f"polls: {rounds} rounds, {pages} pages, {seen} nodes, slowest round {slowest:.3f} s")
    done = {}
    for churner in churners:
        for kind, count in churner.done.items():
            done[kind] = done.get(kind, 0) + count
    print("changes: " + ", ".join(f"{count} x {kind}" for kind, count in sorted(done.items())))

    fresh = Copy(base, token, 1000, 0)
    fresh.pull()
    anonymous, page = {}, 1
    while True:
        _, body = Api(base, None).call("GET", f"/nodes?limit=1000&sort=id&page={page}")
        anonymous |= {node["id"]: node for node in body["nodes"]}
        if page >= body["totalPages"]:
            break
        page += 1
    differ = differences("all nodes", copy.nodes, fresh.nodes)
    differ |= differences("visible nodes", copy.visible(), anonymous)
    banned = len(fresh.nodes) - len(anonymous)
    print(f"{'DIFFERENT' if differ else 'equal'}: {len(fresh.nodes)} nodes, {banned} of them banned")
    return 1 if differ else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", help="a running service; without it one is started")
    parser.add_argument("--token", help="token of an administrator of that service")
    parser.add_argument("--binary", default="target/release/mediary", help="the program to start")
    parser.add_argument("--nodes", type=int, default=5000, help="nodes created before the test")
    parser.add_argument("--publishers", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rate", type=float, default=200, help="changes per second by all other clients")
    parser.add_argument("--churners", type=int, default=4, help="number of other clients")
    parser.add_argument("--limit", type=int, default=100, help="nodes per page")
    parser.add_argument("--pause", type=float, default=0.5, help="seconds between two polls")
    parser.add_argument("--overlap", type=float, default=5, help="seconds by which a poll goes back before the previous one")
    options = parser.parse_args()
    try:
        if options.base:
            return run(options.base.rstrip("/"), options.token, options)
        with tempfile.TemporaryDirectory() as directory:
            process, base = start(options.binary, directory)
            try:
                return run(base, TOKEN, options)
            finally:
                process.terminate()
                process.wait()
    except (Failure, OSError, http.client.HTTPException) as failure:
        print(f"FAILED: {failure}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
