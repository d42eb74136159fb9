"""JSON objects with a digest of all else that they say."""

import hashlib
import json

OWN_DIGEST = "own_digest"


def with_own_digest(fields: dict) -> dict:
    """Returns what JSON is to say, with a digest of all of it.

    Args:
        fields: dict, as `json.dumps` takes it.

    >>> with_own_digest({"rows": {7: (1, 2)}})["rows"]
    {'7': [1, 2]}
    """
    fields = json.loads(json.dumps(fields))
    return {**fields, OWN_DIGEST: _digest(fields)}


def fits_own_digest(fields: dict) -> bool:
    """Whether JSON says what was written.

    What has no digest, as versions before wrote it, is taken for that.

    Args:
        fields: dict, as it was read.

    >>> fits_own_digest(with_own_digest({"rows": 3}))
    True
    >>> fits_own_digest({**with_own_digest({"rows": 3}), "rows": 4})
    False
    """
    return fields.get(OWN_DIGEST) in (None, _digest(without_digest(fields)))


def without_digest(fields: dict) -> dict:
    """Returns all that it says else.

    Args:
        fields: dict.
    """
    return {name: fields[name] for name in fields if name != OWN_DIGEST}


def _digest(fields):
    text = json.dumps(fields, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
