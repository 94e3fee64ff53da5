"""What a careful liar does to a stored guarantee or release: every derived number made to fit."""

import json

from privmean.privacy.bill import loss_from_dict
from privmean.privacy.canonical import digest
from privmean.privacy.guarantee import PURPOSE


def resealed(guarantee):
    """An edited stored guarantee with the losses and the digest that belong to its numbers.

    Raises ArgumentError where an entry has numbers that no mechanism has.
    """
    values = json.loads(json.dumps(guarantee))
    values["mechanisms"] = [loss_from_dict(item).to_dict() for item in values["mechanisms"]]
    values.pop("digest", None)
    values["digest"] = digest(PURPOSE, values)
    return json.loads(json.dumps(values))
