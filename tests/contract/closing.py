"""Answers have no fields but those that are documented. Clients are not told so, that fields may be added later."""


def close_answers(document):
    """Forbids fields of answers that have no name in the document."""
    for name, schema in document["components"]["schemas"].items():
        if not name.endswith("Body") and name != "Document":
            close(schema)


def close(schema):
    """Forbids what is not named, here and inside."""
    if isinstance(schema, list):
        for part in schema:
            close(part)
    elif isinstance(schema, dict):
        if schema.get("type") == "object" and "properties" in schema:
            schema.setdefault("additionalProperties", False)
        for part in schema.values():
            close(part)
