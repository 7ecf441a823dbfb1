"""What schemathesis must be told beside its configuration."""

import re

import schemathesis

# Doubles from here on have few or no binary digits behind the point left.
LARGE = 2**50


def small_prefix(entry):
    """At most 16 addresses: a /16 is allowed and works, but every GET of the whole queue
    afterwards would carry 65,536 rows, and the run would spend its time with them."""
    return re.sub(r"/(1[6-9]|2[0-7])$", "/28", entry) if isinstance(entry, str) else entry


# The largest double: RFC 8259 lets a reader of JSON refuse what lies beyond, and control-api does.
DOUBLE_MAX = int(1.7976931348623157e308)


def whole(value):
    """The validator of schemathesis takes 2251799813685247.2 for a whole number; it is none.
    And it sends numbers that no double holds."""
    if isinstance(value, float) and abs(value) >= LARGE:
        return int(value)
    if isinstance(value, int) and abs(value) > DOUBLE_MAX:
        return DOUBLE_MAX if value > 0 else -DOUBLE_MAX
    if isinstance(value, list):
        return [whole(one) for one in value]
    if isinstance(value, dict):
        return {key: whole(one) for key, one in value.items()}
    return value


@schemathesis.hook
def before_call(ctx, case, kwargs):
    body = case.body
    if isinstance(body, dict) and isinstance(body.get("addresses"), list):
        body["addresses"] = [small_prefix(entry) for entry in body["addresses"]]
    if case.meta is not None and case.meta.generation.mode.is_positive:
        case.body = whole(body)
    # A long poll is as good after a second as after a minute, and the client waits for 10 only.
    wait = (case.query or {}).get("wait")
    if re.fullmatch(r"[1-5]?[0-9]|60", str(wait)) and int(wait) > 1:
        case.query["wait"] = 1


@schemathesis.deserializer("application/jsonl")
def jsonl(ctx, response):
    """A text, as the document says: OpenAPI 3.1 cannot describe the lines of one."""
    return response.content.decode()
