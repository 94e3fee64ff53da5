"""From a private value to the bytes that leave the person's device."""

from __future__ import annotations

import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from privmean import validate
from privmean.errors import ArgumentError
from privmean.local.clients import ball_randomizer as ball
from privmean.local.clients import closest_code as closest
from privmean.local.clients import item_randomizers as items
from privmean.local.clients import scalar_randomizers as scalar
from privmean.local.clients.client_ledger import Ledger
from privmean.local.entropy import Entropy, SystemEntropy
from privmean.local.exact_coins import exact_epsilon
from privmean.local.mechanisms import CLOSEST
from privmean.local.reports import NONCE_SIZE, POINT, Report, Ticket, authentication
from privmean.local.round import Round

Randomizer = Callable[[Round, int, Any, bytes, Entropy], bytes]

# A new mechanism adds one line where its randomizer is, and one in aggregators.
RANDOMIZERS: dict[str, Randomizer] = {
    **scalar.RANDOMIZERS,
    **ball.RANDOMIZERS,
    CLOSEST: closest.closest,
    **items.RANDOMIZERS,
}


def _level(round_: Round, epsilon: object, ticket: Ticket | None) -> int:
    """The level to answer at: the ticket's, if the client allows it, else the largest allowed."""
    validate.instance("round", round_, Round, "give what Round.from_json makes")
    own = round_.level(epsilon)
    if not round_.issued:
        if ticket is not None:
            raise ArgumentError("ticket", "...", "is not used by this round", "remove the ticket")
        return own
    if ticket is None:
        raise ArgumentError(
            "ticket", None, "is required by this round", "ask the server's operator"
        )
    validate.instance("ticket", ticket, Ticket, "give what Ticket.from_text makes")
    if ticket.round_id != round_.identifier:
        raise ArgumentError("ticket", "...", "is not for this round", "ask for the right one")
    if not 0 <= ticket.level <= own:
        raise ArgumentError(
            "ticket", ticket.level, "requires more epsilon than this client allows", "refuse it"
        )
    return ticket.level


def _place(round_: Round, point: int | None) -> bytes:
    """The design point as it stands before the payload; nothing in other rounds."""
    if not round_.points:
        if point is not None:
            raise ArgumentError("point", point, "is not used by this round", "remove it")
        return b""
    number = len(round_.points)
    if point is None or not 0 <= validate.whole("point", point) < number:
        raise ArgumentError("point", point, "is not a design point", f"give 0 to {number - 1}")
    return POINT.pack(point)


def randomize(
    round_: Round,
    value: object,
    *,
    epsilon: object,
    nonce: bytes | None = None,
    ticket: Ticket | None = None,
    entropy: Entropy | None = None,
    point: int | None = None,
) -> bytes:
    """Return one report on a value, ready to be sent.

    Parameters
    ----------
    round_ : Round
        The round.
    value : float, list of float or int
        A number, a vector or an item. Anything else counts as missing, and is reported too.
    epsilon : float
        What the client allows for its reports of one protocol. The report uses the largest level of
        the menu that is within it, or within its share of several rounds.
    nonce : bytes, optional
        Default: random.
    ticket : Ticket, optional
        The right to report, if the round issues its nonces.
    entropy : callable, optional
        For simulations only. Default: system entropy.
    point : int, optional
        In a round for a curve: public number of the design point of the value.

    Returns
    -------
    bytes
        The report.

    Privacy
    -------
    The unit is this report, with all records behind it. The distribution of the bytes changes by a
    factor of at most e^epsilon between any two values, exactly. Public are the round, level, nonce
    and design point, and that a report was sent. Each call costs epsilon again: see `Client`.

    Examples
    --------
    from privmean.local import mean_round, randomize

    report = randomize(mean_round(0, 24, epsilon=1, persons=100), 7.5, epsilon=1)
    """
    level = _level(round_, epsilon, ticket)
    before = _place(round_, point)
    source = SystemEntropy() if entropy is None else entropy
    if ticket is not None:
        nonce = ticket.nonce
    elif nonce is None:
        nonce = source.bytes(NONCE_SIZE)
    elif len(nonce) != NONCE_SIZE:
        raise ArgumentError("nonce", len(nonce), "is not 16 bytes", "let the client draw it")
    payload = before + RANDOMIZERS[round_.mechanism](round_, level, value, nonce, source)
    report = Report(round_.code, round_.identifier, nonce, level, payload)
    if ticket is not None:
        mac = authentication(ticket.key, report.body())
        report = Report(round_.code, round_.identifier, nonce, level, payload, mac)
    return report.to_bytes()


class Client:
    """One person's device, with an epsilon and a ledger that never charges it twice.

    Parameters
    ----------
    epsilon : float
        The most that one measurement may cost: one report, or all rounds of one protocol
        (`Round.messages`).
    ledger : Ledger
        Remembers the reports and the total that this person allows.
    identity : str, optional
        Public name, required for rounds that ask a part of the clients.
    entropy : callable, optional
        For simulations only. Default: system entropy.

    Privacy
    -------
    Each report is epsilon-DP for the value of this person; see `randomize`.

    Examples
    --------
    from privmean.local import Client, Ledger, mean_round

    round_ = mean_round(0, 24, epsilon=1, persons=10_000)
    client = Client(epsilon=1, ledger=Ledger(":memory:", limit=4))
    client.report(round_, 7.5)
    """

    def __init__(
        self,
        *,
        epsilon: object,
        ledger: Ledger,
        identity: str | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        self.epsilon: Fraction = exact_epsilon("epsilon", epsilon)
        self.ledger = ledger
        self.identity = identity
        self._entropy: Entropy = SystemEntropy() if entropy is None else entropy
        if not self._entropy.secure:
            raise ArgumentError(
                "entropy", "seeded", "is not private", "use `randomize` for simulations"
            )

    def report(
        self,
        round_: Round,
        value: object,
        *,
        ticket: Ticket | None = None,
        point: int | None = None,
    ) -> bytes | None:
        """Return the report for this round: made once, and the same bytes at every further call.

        point: in a round for a curve, the public number of the design point. None if the round asks
        another part of the clients. Raises BudgetExceededError if the ledger would exceed its
        limit, and ArgumentError for a new report after the deadline; then nothing is charged.

        Guarantees. The reports of this client together are (ledger limit)-DP, for any rounds that
        any server publishes, adaptively, and for any number of retries.
        """
        validate.instance("round", round_, Round, "give what Round.from_json makes")
        if round_.part is not None:
            if self.identity is None:
                raise ArgumentError(
                    "identity",
                    None,
                    "is required: the round asks a part of the clients",
                    "give an identity",
                )
            if not round_.part.chosen(self.identity):
                return None
        level = _level(round_, self.epsilon, ticket)
        _place(round_, point)  # refused before anything is written down

        def make() -> bytes:
            if round_.closes is not None and time.time() > round_.closes:
                raise ArgumentError("round", round_.title, "is over", "do not answer the round")
            return randomize(
                round_,
                value,
                epsilon=self.epsilon,
                ticket=ticket,
                entropy=self._entropy,
                point=point,
            )

        return self.ledger.once(round_.digest, round_.menu[level], make)
