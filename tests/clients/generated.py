"""Checks the generated client: it has every operation, and the generator gave only known warnings."""

import json
import re
import sys
from pathlib import Path

# Warnings that are expected: body types that the generator does not support. The client has the operations anyway, and
# `Response.content` has the bytes.
KNOWN = {
    "GET /files/{fileId}": "content_type */*",  # uploaded pictures and films
    "GET /media/{file}": "content_type */*",  # pictures and films of nine formats
    "GET /nodes/{nodeId}/badge.svg": "content_type image/svg+xml",  # a picture
    "GET /metrics": "content_type application/openmetrics-text",  # for Prometheus
    "GET /nodes/{nodeId}/versions/{version}/download": "content_type application/zip",
    "POST /proxy/musicvendor/t2m/generate": "content_type application/x-ndjson",  # lines of a stream
    "PUT /uploads/{ticket}": "content type application/zip",  # the client uses application/octet-stream, which is listed too
}
METHODS = ("get", "put", "post", "delete")


def warnings(output):
    """Yields the warnings in the output of the generator: subject and first line of each."""
    for part in re.split(r"^(?=WARNING|ERROR)", output, flags=re.MULTILINE)[1:]:
        head, *rest = [line for line in part.splitlines() if line.strip()]
        at = re.match(r"WARNING parsing (\w+ \S+) within", head)
        yield (at[1] if at else head), (rest[0] if rest else "")


def operations_of(client):
    """Modules of the client that contain an operation."""
    return [module for module in client.glob("api/*/*.py") if module.stem != "__init__"]


def faults(document, client, output):
    """Yields the problems of the client, one sentence each."""
    given = list(warnings(output))
    for at, what in given:
        if at not in KNOWN or KNOWN[at] not in what:
            yield f"{at}: {what}"
    for at in KNOWN.keys() - {at for at, _ in given}:
        yield f"{at}: the generator no longer warns; remove it from KNOWN"
    generated = {module.stem.replace("_", "") for module in operations_of(client)}
    for path, operations in document["paths"].items():
        for method in METHODS:
            name = operations.get(method, {}).get("operationId")
            if name and name.lower() not in generated:
                yield f"{method.upper()} {path}: {name} is missing in the client"
    error_classes = [module.stem for module in client.glob("models/*.py") if re.search(r"response_[45]\d\d", module.stem)]
    if error_classes:
        yield f"{len(error_classes)} error classes besides Problem, such as {error_classes[0]}"


def main():
    document = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    client = Path(sys.argv[2]) / "mediary_client"
    wrong = list(faults(document, client, Path(sys.argv[3]).read_text(encoding="utf-8")))
    for fault in wrong:
        print(fault)
    models, operations = len(list(client.glob("models/*.py"))), len(operations_of(client))
    print(f"openapi-python-client: {models} models, {operations} operations, {len(wrong)} faults")
    return 1 if wrong or operations < 90 else 0


if __name__ == "__main__":
    sys.exit(main())
