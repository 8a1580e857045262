"""Checks the document of a running service: it is valid OpenAPI 3.1, every example matches its schema, and every
URL that the service accepts matches the URL pattern."""

import json
import os
import sys

import jsonschema_rs
import openapi_spec_validator

from closing import close_answers

METHODS = ("get", "put", "post", "delete")


def resolve(document, value):
    """Resolves a reference; returns other values unchanged."""
    while "$ref" in value:
        target = document
        for step in value["$ref"].removeprefix("#/").split("/"):
            target = target[step]
        value = target
    return value


def contents(document):
    """Yields every media type object: location, schema, examples."""
    for path, operations in [*document["paths"].items(), *document["webhooks"].items()]:
        for method in METHODS:
            operation = operations.get(method)
            if not operation:
                continue
            at = f"{method.upper()} {path}"
            for parameter in operation["parameters"]:
                parameter = resolve(document, parameter)
                yield f"{at}: {parameter['name']}", parameter
            for media_type in operation.get("requestBody", {}).get("content", {}).values():
                yield f"{at}: body", media_type
            for status, answer in operation["responses"].items():
                for media_type in resolve(document, answer).get("content", {}).values():
                    yield f"{at}: {status}", media_type


def lines(document):
    """Yields the lines of JSON-line examples as separate contents."""
    for at, content in contents(document):
        schema = content["schema"]
        if schema.get("contentMediaType") == "application/x-ndjson":
            for line in content["example"].splitlines():
                yield f"{at}: {line[:40]}", {"schema": schema["contentSchema"], "example": json.loads(line)}


def urls(document):
    """Yields the URL fields with each URL that src/http/openapi/schema.rs lists as accepted."""
    schemas = document["components"]["schemas"]
    with open(os.path.join(os.path.dirname(__file__), "urls.txt"), encoding="utf-8") as file:
        accepted = file.read().splitlines()
    for component, field in (("PublisherBody", "website"), ("ExtendVideoBody", "video_url"), ("Delivery", "url")):
        for url in accepted:
            yield f"{component}.{field}", {"schema": schemas[component]["properties"][field], "example": url}


def examples(content):
    """Yields the examples of a content."""
    if "example" in content:
        yield content["example"]
    for example in content.get("examples", {}).values():
        yield example["value"]


def main():
    document = json.load(open(sys.argv[1], encoding="utf-8"))
    openapi_spec_validator.validate(document)
    close_answers(document)
    checked, wrong = 0, 0
    for at, content in [*contents(document), *lines(document), *urls(document)]:
        schema = {**content["schema"], "components": document["components"]}
        validator = jsonschema_rs.Draft202012Validator(schema, validate_formats=True)
        for example in examples(content):
            checked += 1
            for error in validator.iter_errors(example):
                wrong += 1
                print(f"{at}: invalid example: {error.message} at {list(error.instance_path)}")
    print(f"the document is OpenAPI 3.1; {checked} examples, {wrong} errors")
    return 1 if wrong or checked < 50 else 0


if __name__ == "__main__":
    sys.exit(main())
