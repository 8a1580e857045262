"""What the document does not say and the test still holds the service to."""

import io
import itertools
import json
import os
import re
import zipfile

import schemathesis

from closing import close_answers


@schemathesis.hook
def before_load_schema(context, raw_schema):
    close_answers(raw_schema)
    with open(os.environ["CONTRACT_THERE"], encoding="utf-8") as file:
        there = json.load(file)
    for path, operations in raw_schema["paths"].items():
        for operation in operations.values():
            for parameter in operation["parameters"]:
                name = parameter.get("name")
                made_up = there.get(name) or there.get(f"/{path.split('/')[1]} {name}")
                if made_up and parameter["in"] == "path":
                    parameter["example"] = made_up


COUNTER = itertools.count()


@schemathesis.hook
def before_call(context, case, kwargs):
    """Keys are made different, or all requests after the first would be told that theirs was used before."""
    key = (case.headers or {}).get("Idempotency-Key")
    if isinstance(key, str) and re.fullmatch("[!-~]{1,255}", key):
        case.headers["Idempotency-Key"] = f"{key[:-8]}{next(COUNTER):08}"


@schemathesis.serializer("application/zip")
def zipped(context, value):
    """Archives hold something arbitrary; what no archive is, tests/it sends."""
    content = value if isinstance(value, bytes) else json.dumps(value, default=str).encode()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as writer:
        writer.writestr("content", content)
    return archive.getvalue()


@schemathesis.check
def failures_have_one_shape(ctx, response, case):
    """Every failure is a problem of RFC 9457 that names its request, whatever was asked and whoever answers."""
    if response.status_code < 400:
        return
    kind = response.headers.get("content-type", [""])[0]
    assert kind == "application/problem+json", f"a failure of the type {kind}"
    if response.request.method != "HEAD":
        problem = response.json()
        assert problem["status"] == response.status_code
        assert problem["type"] == f"urn:mediary:error:{problem['error']}"


@schemathesis.check
def every_answer_names_its_request(ctx, response, case):
    """The name of a request is in every answer."""
    assert response.headers.get("x-request-id"), "an answer without X-Request-Id"


@schemathesis.check
def nothing_secret_is_repeated(ctx, response, case):
    """No answer has the token of its request in it."""
    token = (response.request.headers.get("Authorization") or "").removeprefix("Bearer ")
    assert len(token) < 16 or token.encode() not in response.content, "the answer repeats the token of the request"


@schemathesis.check
def unprocessable_means_a_key_used_twice(ctx, response, case):
    """422 has one meaning only (contract 2)."""
    if response.status_code == 422:
        assert response.json()["error"] == "idempotency_key_reused"
