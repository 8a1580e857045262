"""Closes response schemas, so that undocumented fields fail the test. The published document stays open for new fields."""


def close_answers(document):
    """Forbids undocumented fields in all response schemas."""
    for name, schema in document["components"]["schemas"].items():
        if not name.endswith("Body") and name != "Document":
            close(schema)


def close(schema):
    """Forbids additional properties of a schema, recursively."""
    if isinstance(schema, list):
        for part in schema:
            close(part)
    elif isinstance(schema, dict):
        if schema.get("type") == "object" and "properties" in schema:
            schema.setdefault("additionalProperties", False)
        for part in schema.values():
            close(part)
