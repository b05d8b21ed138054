"""The published JSON Schema of a config and the vectors say the same, where a schema can say it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conformance import fixtures

VECTORS = fixtures.VECTORS
# What a schema cannot judge: bytes and nesting of the text, members twice, what is unique among routes, what the operator
# supports or allows, what the form of a URL, a secret or a header means, and which JWK is a key that can be encrypted to.
BEYOND_A_SCHEMA = {
    "malformed_json", "too_large", "too_deep", "duplicate_key", "not_unicode", "duplicate_id", "unsupported_type",
    "secret_required", "duplicate_header", "header_reserved", "header_value", "header_not_allowed", "header_name",
    "secret_length", "secret_base64", "secret_url_safe", "not_allowed", "too_big",
    "plain_http", "metadata_address", "special_address", "user_info", "character", "internal_name", "port", "scheme",
    "fragment", "metadata_name", "not_open", "pointer", "operand", "group_rule", "outcome",
    "key_private", "key_type", "key_curve", "key_coordinate", "key_point", "key_use", "key_algorithm", "key_name",
}  # fmt: skip


# An endpoint is a webhook's need only, which the schema leaves open. A `$` of Python also matches before a line break.
NOT_THE_SCHEMAS_SAYING = {
    "endpoint: missing on a webhook", "id: a line break", "a public key without members", "a public key without y",
}  # fmt: skip


def within_a_schema(vector: fixtures.Vector) -> bool:
    rules = {fault["rule"] for fault in vector.out.get("faults", [])}
    return vector.name not in NOT_THE_SCHEMAS_SAYING and (not rules or bool(rules - BEYOND_A_SCHEMA))


def cases() -> list[Any]:
    schema = json.loads((VECTORS / "rules.schema.json").read_text())
    rule = fixtures.load_rule(VECTORS / "rules" / "config_check.json", schema)
    return [pytest.param(vector, id=vector.name[:60]) for vector in rule.vectors if within_a_schema(vector)]


@pytest.mark.parametrize("vector", cases())
def test_schema_and_vector_agree(vector: fixtures.Vector) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    judge = jsonschema.Draft202012Validator(json.loads((VECTORS / "notification-config.schema.json").read_text()))
    assert judge.is_valid(json.loads(vector.given["config"])) == ("accepted" in vector.out)
