"""Schemathesis hooks: constraints that the document cannot express, and additional checks."""

import base64
import io
import itertools
import json
import os
import re
import zipfile
from urllib.parse import unquote

import schemathesis
from schemathesis.core.failures import AcceptedNegativeData
from schemathesis.openapi.checks import RejectedPositiveData, UndefinedStatusCode

from closing import close_answers


with open(os.environ["CONTRACT_THERE"], encoding="utf-8") as file:
    THERE = json.load(file)

CODES = {}
COUNTER = itertools.count()
EXAMPLES = {
    "publisherId": "acme",
    "nodeId": "face-tools",
    "ticket": THERE["examples"]["ticket"],
    "userId": THERE["examples"]["userId"],
}
CONTROL = re.compile("[\\x00-\\x1f\\x7f-\\x9f]")
PATTERNS = {}
UUID = re.compile("[0-9a-f-]{36}")
TAKEN = [*EXAMPLES.values(), *itertools.chain.from_iterable(THERE["spares"].values())]
# Strings that match the documented URL pattern, and among them ones that are certainly valid.
URL = re.compile("[Hh][Tt][Tt][Pp][Ss]?:[^\\x00-\\x20\\x7f-\\xa0]{1,2040}")
SURE_URL = re.compile("https?://[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,4})?([/?#][!-~]*)?")
NODE_ID = re.compile("[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
# The service takes no other content for a file.
PICTURE = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNQaDgAAAIkAWHdFJqQAAAAAElFTkSuQmCC")
SPARES = {name: itertools.cycle(spares) for name, spares in THERE["spares"].items()}


@schemathesis.hook
def before_load_schema(context, raw_schema):
    """Closes response schemas, and replaces example ids by existing ones."""
    list_codes(raw_schema)
    close_answers(raw_schema)
    leave_to_administrators(raw_schema["components"]["schemas"])
    take_first_versions_without_number(raw_schema["components"]["schemas"])
    examples = THERE["examples"]
    for path, operations in raw_schema["paths"].items():
        for operation in operations.values():
            for parameter in operation["parameters"]:
                name = parameter.get("name")
                made_up = examples.get(name) or examples.get(f"/{path.split('/')[1]} {name}")
                if parameter.get("in") != "path":
                    continue
                if made_up:
                    parameter["example"] = made_up
                if "pattern" in parameter["schema"]:
                    PATTERNS[name] = re.compile(parameter["schema"]["pattern"])


def leave_to_administrators(schema):
    """Removes fields that only administrators set: other callers may send anything there. administerNode and
    administerVersion have the same fields."""
    if isinstance(schema, list):
        for part in schema:
            leave_to_administrators(part)
    elif isinstance(schema, dict):
        fields = schema.get("properties", {})
        for name in [name for name, field in fields.items() if field.get("x-administrators-only")]:
            del fields[name]
        for part in schema.values():
            leave_to_administrators(part)


def list_codes(document):
    """Error codes by path, method and status."""
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            for status, answer in operation["responses"].items():
                if status >= "400":
                    component = document["components"]["responses"][answer["$ref"].rsplit("/", 1)[1]]
                    CODES[path, method, int(status)] = component["x-error-codes"]


def take_first_versions_without_number(schemas):
    """Drops a first version without a number, whose other fields are not validated. The schema does not say so,
    because generators make two classes of two alternatives."""
    nothing = {"type": "object", "properties": {"version": {"type": "null"}}}
    schemas["FirstVersionBody"] = {"anyOf": [schemas["FirstVersionBody"], nothing]}


@schemathesis.hook
def before_call(context, case, kwargs):
    """Uses fresh resources for writes. Otherwise the first request that bans or deletes the example is the last
    that finds it, and ids and keys are used up."""
    fresh = next(COUNTER)
    key = (case.headers or {}).get("Idempotency-Key")
    if isinstance(key, str) and re.fullmatch("[!-~]{1,255}", key):
        case.headers["Idempotency-Key"] = f"{key[:-8]}{fresh:08}"
    if case.method.upper() in ("POST", "PUT", "DELETE"):
        freshen_path(case.operation.definition.raw["operationId"], case.path_parameters or {})
        if isinstance(case.body, dict):
            if case.media_type == "multipart/form-data" and isinstance(case.body.get("file"), (bytes, str)):
                case.body["file"] = PICTURE
            freshen_body(case.body, fresh)
            make_urls_sure(case.body)
            for node in (case.body, case.body.get("node")):
                name_node_of_path(node, case.path_parameters or {})


def freshen_path(operation, named):
    """Replaces the example by a spare resource, and keeps related parameters consistent."""
    if operation in ("deletePublisher", "banPublisher", "unbanPublisher"):
        take_spare(named, "publisherId")
        return
    if operation == "eraseUser":
        take_spare(named, "userId")
    take_spare(named, "nodeId")
    take_spare(named, "ticket")
    if "nodeId" in named and named.get("publisherId") in THERE["spares"]["publisherId"]:
        named["publisherId"] = EXAMPLES["publisherId"]
    if UUID.fullmatch(str(named.get("versionId"))):
        named["versionId"] = "1.2.0"


def take_spare(named, parameter):
    if parameter in named and named[parameter] == EXAMPLES[parameter]:
        named[parameter] = next(SPARES[parameter])


def freshen_body(body, fresh):
    """Replaces a taken id or number by a free one."""
    if body.get("id") in TAKEN:
        body["id"] = f"fresh-{fresh}"
    version = body.get("node_version")
    if isinstance(version, dict) and version.get("version") == "1.2.0":
        version["version"] = f"3.{fresh}.0"


def make_urls_sure(value):
    """Replaces strings that match the URL pattern but are not URLs."""
    for at, part in list(value.items() if isinstance(value, dict) else enumerate(value)):
        if isinstance(part, (dict, list)):
            make_urls_sure(part)
        elif isinstance(part, str) and URL.fullmatch(part) and not SURE_URL.fullmatch(part):
            value[at] = "https://acme.example/"


def name_node_of_path(node, named):
    """Sets the node id in the body to that of the path; invalid ids stay."""
    given = node.get("id") if isinstance(node, dict) else None
    if "nodeId" in named and isinstance(given, str) and NODE_ID.fullmatch(given):
        node["id"] = named["nodeId"]


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """Skips links that would carry echoed invalid ids (dots, control characters) into a path or query, and forms with
    parts whose names are empty or contain control characters: these are no valid requests."""
    named = case.path_parameters or {}
    no_id = any(name in PATTERNS and not PATTERNS[name].search(unquote(str(value))) for name, value in named.items())
    no_text = any(CONTROL.search(str(value)) for value in flat(list((case.query or {}).values())))
    parts = case.body if case.media_type == "multipart/form-data" and isinstance(case.body, dict) else {}
    no_name = any(not name or CONTROL.search(name) for name in parts)
    # An empty part counts as absent, and `before_call` may have made the file a valid one.
    if isinstance(failure, AcceptedNegativeData) and any(part in ("", b"", PICTURE) for part in flat(list(parts.values()))):
        return False
    return not ((no_id or no_text or no_name) and isinstance(failure, (RejectedPositiveData, UndefinedStatusCode)))


def flat(values):
    """Yields all values, including those in lists."""
    return itertools.chain.from_iterable(value if isinstance(value, list) else [value] for value in values)


@schemathesis.serializer("application/zip", "application/octet-stream")
def zipped(context, value):
    """Sends valid archives; tests/it covers invalid ones."""
    content = value if isinstance(value, bytes) else json.dumps(value, default=str).encode()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as writer:
        writer.writestr("content", content)
    return archive.getvalue()


@schemathesis.check
def failures_have_one_shape(ctx, response, case):
    """Checks that every error is an RFC 9457 problem with the request id."""
    if response.status_code < 400:
        return
    kind = response.headers.get("content-type", [""])[0]
    assert kind == "application/problem+json", f"a failure of the type {kind}"
    if response.request.method != "HEAD":
        problem = response.json()
        assert problem["status"] == response.status_code
        assert problem["type"] == f"urn:mediary:error:{problem['error']}"


@schemathesis.check
def failures_have_codes_of_their_operation(ctx, response, case):
    """Checks that the error code is documented for the operation and status."""
    listed = CODES.get((case.operation.path, case.operation.method.lower(), response.status_code))
    if listed is None or response.request.method == "HEAD":
        return
    code = response.json()["error"]
    assert code in listed, f"{code} is not listed for {response.status_code}: {', '.join(listed)}"


@schemathesis.check
def every_answer_names_its_request(ctx, response, case):
    """Checks that every response has X-Request-Id."""
    assert response.headers.get("x-request-id"), "an answer without X-Request-Id"


@schemathesis.check
def nothing_secret_is_repeated(ctx, response, case):
    """Checks that no response contains the token of its request."""
    token = (response.request.headers.get("Authorization") or "").removeprefix("Bearer ")
    assert len(token) < 16 or token.encode() not in response.content, "the answer repeats the token of the request"


@schemathesis.check
def unprocessable_means_a_key_used_twice(ctx, response, case):
    """Checks that 422 is used for idempotency conflicts only (contract 2)."""
    if response.status_code == 422:
        assert response.json()["error"] == "idempotency_key_reused"
