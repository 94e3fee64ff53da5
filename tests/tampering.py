"""What a careful liar does to a stored guarantee or release: every derived number made to fit."""

import json

from privmean.plain_data import digest
from privmean.privacy.guarantee import PURPOSE
from privmean.privacy.stored_events import SAYING, loss_from_dict


def resealed(guarantee):
    """An edited stored guarantee with the losses and the digest that belong to its numbers.

    Raises ArgumentError where an entry has numbers that no mechanism has.
    """
    values = json.loads(json.dumps(guarantee))
    values["mechanisms"] = [_counted(item).to_dict() for item in values["mechanisms"]]
    values.pop("digest", None)
    values["digest"] = digest(PURPOSE, values)
    return json.loads(json.dumps(values))


def _counted(item):
    """An entry that says of its edited numbers what a change moves, unless it has its own words."""
    loss = loss_from_dict(item)
    return loss if isinstance(loss, SAYING) else loss_from_dict({**item, "sensitivity_text": ""})
