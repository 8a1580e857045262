"""Checks the generated client: it has every operation, and the generator gave only known warnings."""

import json
import re
import sys
from pathlib import Path

# Body types that the generator does not support. The operation exists; `Response.content` has the bytes.
KNOWN = {
    "GET /files/{fileId}": "content_type */*",  # uploaded pictures and films
    "GET /media/{file}": "content_type */*",  # pictures and films of nine formats
    "GET /nodes/{nodeId}/badge.svg": "content_type image/svg+xml",  # a picture
    "GET /metrics": "content_type application/openmetrics-text",  # for Prometheus
    "GET /nodes/{nodeId}/versions/{version}/download": "content_type application/zip",
    "POST /proxy/musicvendor/t2m/generate": "content_type application/x-ndjson",  # lines that come while music is made
    "PUT /uploads/{ticket}": "content type application/zip",  # application/octet-stream is listed beside it and taken
}
METHODS = ("get", "put", "post", "delete")


def warnings(said):
    """Warnings of the generator: subject and first line of each."""
    for part in re.split(r"^(?=WARNING|ERROR)", said, flags=re.MULTILINE)[1:]:
        head, *rest = [line for line in part.splitlines() if line.strip()]
        at = re.match(r"WARNING parsing (\w+ \S+) within", head)
        yield (at[1] if at else head), (rest[0] if rest else "")


def operations_of(client):
    """Modules of the client that contain an operation."""
    return [module for module in client.glob("api/*/*.py") if module.stem != "__init__"]


def faults(document, client, said):
    """Problems of the client, one sentence each."""
    heard = list(warnings(said))
    for at, what in heard:
        if at not in KNOWN or KNOWN[at] not in what:
            yield f"{at}: {what}"
    for at in KNOWN.keys() - {at for at, _ in heard}:
        yield f"{at}: nothing is said of it any more; take it out of the list of what is known"
    made = {module.stem.replace("_", "") for module in operations_of(client)}
    for path, operations in document["paths"].items():
        for method in METHODS:
            name = operations.get(method, {}).get("operationId")
            if name and name.lower() not in made:
                yield f"{method.upper()} {path}: {name} was not made"
    of_failures = [module.stem for module in client.glob("models/*.py") if re.search(r"response_[45]\d\d", module.stem)]
    if of_failures:
        yield f"{len(of_failures)} classes of failures beside Problem, such as {of_failures[0]}"


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
