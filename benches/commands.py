#!/usr/bin/env python3
"""Sends commands to a running service on persistent connections. Checks the order of syncs and responses in a trace.

  commands.py BASE --clients 64 --commands 6400     every response must be 201
  commands.py --check-order TRACE                   every 201 in an strace output must follow a sync of its own
"""

import argparse
import http.client
import json
import re
import sys
import threading
import time
from urllib.parse import urlsplit

HEADERS = {"Authorization": "Bearer token-of-the-sync-count", "Content-Type": "application/json"}


def post(connection, path, body):
    connection.request("POST", path, json.dumps(body), HEADERS)
    response = connection.getresponse()
    text = response.read()
    if response.status != 201:
        raise SystemExit(f"{response.status}: {text.decode()}")


def run_client(address, number, commands, failures):
    try:
        send_commands(address, number, commands)
    except (OSError, http.client.HTTPException, SystemExit) as failure:
        failures.append(failure)


def send_commands(address, number, commands):
    connection = http.client.HTTPConnection(address)
    post(connection, "/publishers", {"id": f"p{number}"})
    for command in range(commands):
        post(connection, f"/publishers/p{number}/nodes", {"id": f"n{number}-{command}"})


def run_clients(base, clients, commands):
    address = urlsplit(base).netloc
    each = commands // clients
    failures = []
    threads = [threading.Thread(target=run_client, args=(address, number, each, failures)) for number in range(clients)]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise SystemExit(f"FAILED: {len(failures)} of {clients} clients, the first with: {failures[0]}")
    print(f"{each * clients} commands of {clients} clients in {time.monotonic() - started:.2f} s")


def check_order(trace):
    """Fails unless a sync ended before each response, and after the response before it."""
    # Syncs since the last response, responses, and responses without a sync.
    syncs, responses, unsynced = 0, 0, 0
    for line in open(trace, encoding="utf-8", errors="replace"):
        if re.search(r"(fdatasync|fsync)(\(\d+\)| resumed>\)) *= 0", line):
            syncs += 1
        elif "HTTP/1.1 201" in line and "resumed" not in line:
            responses += 1
            unsynced += syncs == 0
            syncs = 0
    print(f"{responses} responses, {unsynced} of them without a sync since the response before")
    if responses == 0 or unsynced:
        raise SystemExit("FAILED: a response was sent before its command was synced")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("base", nargs="?")
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--commands", type=int, default=1000)
    parser.add_argument("--check-order", metavar="TRACE")
    options = parser.parse_args()
    if options.check_order:
        check_order(options.check_order)
    elif options.base:
        run_clients(options.base, options.clients, options.commands)
    else:
        parser.error("BASE or --check-order is needed")


if __name__ == "__main__":
    sys.exit(main())
