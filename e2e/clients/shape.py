"""What an answer is made of: its keys and types, not its values.

A shape is {"types": [...]} and, for objects, "keys": {name: shape}, for lists "items": shape. Texts
have finer types where they have a format: uuid, hex32, time, ipv4, cidr, mac, empty.
"""

import re

FORMATS = (
    ("empty", re.compile(r"")),
    ("uuid", re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")),
    ("hex32", re.compile(r"[0-9a-f]{32}")),
    ("time", re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+0000|\+00:00)?")),
    ("ipv4", re.compile(r"\d{1,3}(\.\d{1,3}){3}")),
    ("cidr", re.compile(r"\d{1,3}(\.\d{1,3}){3}/\d{1,2}")),
    ("mac", re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")),
)


def text_type(text):
    """The format of a text, or "text"."""
    for name, pattern in FORMATS:
        if pattern.fullmatch(text):
            return name
    return "text"


def scalar_type(value):
    """The type of what is neither object nor list."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return text_type(value)
    return "int" if isinstance(value, int) else "float"


def merge(one, other):
    """The shape of values of which some have the one shape and some the other."""
    if one is None or other is None:
        return one or other
    merged = {"types": sorted({*one["types"], *other["types"]})}
    keys, more = one.get("keys"), other.get("keys")
    if keys is not None or more is not None:
        names = {**(keys or {}), **(more or {})}
        merged["keys"] = {
            name: merge((keys or {}).get(name), (more or {}).get(name)) for name in sorted(names)
        }
        # A key that only some of the objects have.
        if keys and more:
            some = {*one.get("optional", []), *other.get("optional", []), *(keys.keys() ^ more.keys())}
        else:
            some = {*one.get("optional", []), *other.get("optional", [])}
        if some:
            merged["optional"] = sorted(some)
    items = merge(one.get("items"), other.get("items"))
    if items is not None:
        merged["items"] = items
    return merged


def shape(value):
    """The shape of a JSON value."""
    if isinstance(value, dict):
        return {"types": ["object"], "keys": {key: shape(value[key]) for key in sorted(value)}}
    if isinstance(value, list):
        made, items = {"types": ["list"]}, None
        for item in value:
            items = merge(items, shape(item))
        if items is not None:
            made["items"] = items
        return made
    return {"types": [scalar_type(value)]}


def differences(ours, real, where=""):
    """What of our shape the real one does not have, and the other way round, one line each.

    Every type of ours must be one that the real cloud has; an empty text agrees with any text, and
    "text" of the real cloud with any format. Objects have the same keys. Of lists, and of objects
    that are maps, an empty one says nothing.
    """
    where = where or "answer"
    found = []
    allowed = set(real["types"])
    formats = {name for name, _ in FORMATS} | {"text"}
    for kind in ours["types"]:
        if kind in allowed or (kind in formats and "text" in allowed):
            continue
        if kind == "empty" and allowed & formats or kind in formats and allowed == {"empty"}:
            continue
        found.append(f"{where}: is {kind}, really {' or '.join(sorted(allowed))}")
    if ours.get("items") and real.get("items"):
        found += differences(ours["items"], real["items"], f"{where}[]")
    keys, real_keys = ours.get("keys"), real.get("keys")
    if keys and real_keys:
        some = {*ours.get("optional", []), *real.get("optional", [])}
        for name in sorted(keys.keys() | real_keys.keys()):
            if name not in keys:
                if name not in some:
                    found.append(f"{where}.{name}: is missing")
            elif name not in real_keys:
                found.append(f"{where}.{name}: does not exist really")
            else:
                found += differences(keys[name], real_keys[name], f"{where}.{name}")
    return found
