"""Checks tapes of privacy audits; imports nothing but the standard library.

    python check.py tapes/*.json        # exit 1 if a tape shows a violation, 2 without a tape

A tape (tape.schema.json) holds what met the noise in a run and on its neighbors. Recomputed here
from the laws alone: what each pair of answers costs; what each loss claims; whether the claims
cover the costs, the account has a line for every answer, and the account keeps the budget.
"""

import json
import math
import sys
from collections import Counter
from fractions import Fraction

NEAR = 1e-6
ADDED = ("laplace", "gaussian")
GRID = 400  # steps of a budget's epsilon on which losses are composed


class Cost:
    """pure: epsilon; square: of mu; rho: zCDP; delta: what adds to it all; parts: the epsilons of
    the pure part; known: whether the formulas here say all of it."""

    def __init__(self, pure=0, square=0.0, rho=0.0, delta=0.0, parts=(), known=True):
        self.pure, self.square, self.rho, self.delta = pure, square, rho, delta
        self.parts, self.known = tuple(parts), known

    def __add__(self, other):
        mine = self.pure, self.square, self.rho, self.delta, self.parts
        theirs = other.pure, other.square, other.rho, other.delta, other.parts
        return Cost(*(a + b for a, b in zip(mine, theirs, strict=True)), self.known and other.known)


def claimed(loss):
    """The cost that one loss claims, from its parameters."""
    kind = loss["mechanism"]
    if kind == "discrete Laplace":
        pure, cells = Fraction(loss["sensitivity"]) / Fraction(loss["scale"]), loss["cells_changed"]
        parts = 1 if loss["joint"] else cells
        rho = float(pure) ** 2 / (2 * parts)
        return Cost(pure, 0.0, rho, 0.0, [float(pure) / parts] * parts)
    if kind.startswith("discrete Gaussian"):
        square = max((loss["sensitivity"] / loss["scale"]) ** 2, products(loss))
        return Cost(0, square, square / 2)
    if kind == "selection":
        one, times = Fraction(loss["epsilon"]), loss["choices"]
        rho = times * float(one) ** 2 / (8 if loss["bounded_range"] else 2)
        return Cost(one * times, 0.0, rho, 0.0, [float(one)] * times)
    if kind in ("pure", "approximate"):
        pure = Fraction(loss["epsilon"])
        return Cost(pure, 0.0, float(pure) ** 2 / 2, loss.get("delta", 0.0), [float(pure)])
    if kind in ("threshold", "threshold of a sum"):
        return Cost(delta=loss["delta"])
    if kind == "parallel":  # one person is in one branch: the dearest counts
        sums = [total(branch) for branch in loss["branches"]]
        most = [max(getattr(one, name) for one in sums) for name in ("square", "rho", "delta")]
        dear = max(sums, key=lambda one: one.pure)
        return Cost(dear.pure, *most, dear.parts, all(one.known for one in sums))
    if kind == "concentrated":
        return Cost(rho=loss["limit"], known=False)
    return Cost(known=False)  # a curve of its own


def products(loss):
    """mu^2 of rows and of their products, where these are claimed together."""
    if "radius" not in loss:
        return 0.0
    radius, rows = loss["radius"] ** 2, loss["rows"] ** 2
    beside = min(loss["products"] ** 2, 2 * loss["off"] ** 2)
    if loss["neighbors"] == "replace-one":
        return 4 * radius / rows + (0 if beside >= 2 * radius * rows else 2 * radius**2 / beside)
    return radius / rows + radius**2 / beside


def total(losses):
    return sum(map(claimed, losses), Cost())


def paid(moves, draws, compares):
    """(pure, square) of operands that differ, over the scales of the noise that they met."""
    changes = [[] for _ in draws]
    for move in moves:
        changes[move["draw"]].append((Fraction(move["by"]), move["count"]))
    if compares:
        return compared(draws, changes), Fraction(0)
    pure = square = Fraction(0)
    for draw, moved in zip(draws, changes, strict=True):
        scale = Fraction(draw["scale"])
        if draw["law"] == "argmax":  # what all scores have in common moves no choice
            rest = draw["size"] > sum(count for _, count in moved)
            sizes = [by for by, _ in moved] + [0] * rest
            pure += (max(sizes) - min(sizes)) / scale if sizes else 0
        elif draw["law"] == "laplace":
            pure += sum(abs(by) * count for by, count in moved) / scale
        else:
            square += sum(by * by * count for by, count in moved) / scale**2
    return pure, square


def compared(draws, changes):
    """Sparse vector technique: a noisy limit, then noisy counts until the first beyond it. Counts
    that move in one direction cost once, others twice (Lyu, Su and Li 2017)."""
    single, runs = all(draw["size"] == 1 for draw in draws), []
    for at, (draw, moved) in enumerate(zip(draws, changes, strict=True)):
        scale, sizes = Fraction(draw["scale"]), [by for by, _ in moved]
        if single and at:
            limit, least, known = runs[0]
            runs[0] = limit, min(least, scale), known + sizes
        elif single or draw["size"] == 1:
            runs.append((scale, scale, []))
        elif runs and not runs[-1][2]:
            runs[-1] = runs[-1][0], scale, sizes
        else:
            runs.append((scale, scale, sizes))
    cost = Fraction(0)
    for limit, scale, sizes in runs:
        most = max(map(abs, sizes), default=0)
        both = any(by > 0 for by in sizes) and any(by < 0 for by in sizes)
        cost += most / limit + (2 if both else 1) * most / scale
    return cost


def vector(item, side):
    """K-norm noise of the l2 ball on a lattice, and Laplace noise on one number beside it."""
    moved = [b - a for a, b in zip(side["from"], side["to"], strict=True)]
    square = sum(by * by for by in moved[:-1])
    norm = math.isqrt(square) + (math.isqrt(square) ** 2 < square)
    beside = [draw for draw in item["draws"] if draw["law"] == "laplace"][-1]
    return norm / Fraction(item["vector"]["scale"]) + abs(moved[-1]) / Fraction(beside["scale"])


def choice(item, side):
    """Exponential mechanism: how sharp it is follows from how often it takes a smaller score."""
    moved = [b - a for a, b in zip(side["from"], side["to"], strict=True)]
    probe = item["choice"]
    rate = -math.log(max(int(probe["words"]), 1) / 2**64) / probe["gap"]
    return Fraction(rate * (max(moved) - min(moved)) * probe["choices"])


def scales(item):
    """What is wrong with the scales of the noise, whatever the neighbors."""
    added = [draw for draw in item["draws"] if draw["law"] in ADDED]
    if "vector" in item:
        least = item["vector"]["dimension"] * Fraction(item["vector"]["scale"]) ** 2
        if any(Fraction(draw["scale"]) ** 2 < least for draw in added if draw["size"] > 1):
            yield "proposals are narrower than the law that they are rejected to"
        return
    plain = [x for x in item["losses"] if x["mechanism"].startswith("discrete")]
    said = {Fraction(loss["scale"]) for loss in plain if not loss.get("joint")}
    found = {Fraction(draw["scale"]) for draw in added}
    if len(said) == len(found) == 1 and min(found) < min(said) * (1 - Fraction(NEAR) / 1000):
        yield "the noise is narrower than its loss says"


def hidden(probe):
    """What is wrong with a threshold: how often a cell of one person passes it."""
    scale, border = float(Fraction(probe["scale"])), probe["border"]
    if probe["noises"] > 1:
        x = probe["noises"] * border / scale
        tail = math.exp(-x) * (x * x + 5 * x + 8) / 16
    elif probe["law"] == "laplace":
        tail = math.exp(-border / scale) / (1 + math.exp(-1 / scale))
    else:
        tail = math.erfc((border - 0.5) / scale / math.sqrt(2)) / 2
    if tail * probe["cells"] > probe["delta"] * (1 + NEAR):
        yield "a cell of one person is shown more often than its loss says"


def answers(tape):
    """(name, what is wrong, largest cost over claim) of every answer; None: not measured."""
    for k, item in enumerate(tape["answers"]):
        claim = total(item["losses"])
        near = [(one["change"], side) for one in tape["neighbors"] for side in one["answers"]]
        sides = [(change, side) for change, side in near if side["answer"] == k]
        wrong = [*scales(item), *(hidden(item["threshold"]) if "threshold" in item else ())]
        kinds = {x["mechanism"] for x in item["losses"]} | {x["law"] for x in item["draws"]}
        compares = kinds == {"selection", "laplace"}
        largest = None
        for change, side in sides:
            pure, square = Fraction(0), Fraction(0)
            if "difference" in side:
                wrong.append(f"{change}: {side['difference']}")
            if "moves" in side:
                pure, square = paid(side["moves"], side.get("common", item["draws"]), compares)
            elif "vector" in side:
                pure = vector(item, side["vector"])
            elif "choice" in side:
                pure = choice(item, side["choice"])
            else:
                if side.get("unmeasured") and not item["losses"]:
                    wrong.append(f"{change}: tells neighbors apart without a loss")
                continue
            if side.get("alone", 0) > max([x.get("cells", 1) for x in item["losses"]], default=0):
                wrong.append(f"{change}: more cells of one side alone than are paid for")
            if (pure or square) and not item["losses"]:
                wrong.append(f"{change}: costs, and no loss is claimed")
            elif claim.known and ((pure and not claim.pure) or (square and not claim.square)):
                wrong.append(f"{change}: noise of another law than is claimed")
            elif claim.known:  # else: a curve of its own
                share = float(pure / claim.pure) if pure else 0.0
                share += float(square) / claim.square if square else 0.0
                largest = max(share, largest or 0.0)
                if share > 1 + NEAR:
                    wrong.append(f"{change}: costs {share:.6g} of what is claimed")
        yield item["mechanism"], wrong, largest


def gaussian_delta(mu, epsilon):
    """delta of mu-GDP (Balle and Wang 2018); of nothing, where mu is 0."""
    if not mu:
        return max(0.0, 1 - math.exp(epsilon))
    low, high = (math.erfc((epsilon / mu + way * mu / 2) / math.sqrt(2)) / 2 for way in (-1, 1))
    return low - math.exp(min(epsilon, 700)) * high


def composed(cost, epsilon):
    """delta at epsilon: losses on a grid, rounded up, then the Gaussian part by its formula."""
    step, law = epsilon / GRID, {0: 1.0}
    for size in cost.parts:  # no pure loss costs more than a coin that tells with odds e^size
        up, more = 1 / (1 + math.exp(-size)), Counter()
        for cell, p in law.items():
            more[cell + math.ceil(size / step)] += p * up
            more[cell - math.floor(size / step)] += p * (1 - up)
        law = more
    mu = math.sqrt(cost.square)
    parts = (p * max(0.0, gaussian_delta(mu, epsilon - k * step)) for k, p in law.items())
    return cost.delta + sum(parts)


def line(loss):
    """A loss without its label."""
    return json.dumps({**loss, "name": ""}, sort_keys=True)


def covered(rest, lines):
    """Whether lines that stand for whole questions cover what is on no line of its own."""
    if not lines.known:  # zCDP
        return rest.rho <= lines.rho * (1 + NEAR) and rest.delta <= lines.delta
    if rest.pure <= lines.pure and not rest.square and rest.delta <= lines.delta:
        return True
    return bool(lines.delta) and composed(rest, float(lines.pure)) <= lines.delta * (1 + 1e-3)


def account(tape):
    """What is wrong with the account, and whether it is shown to keep the budget."""
    left, rest = Counter(map(line, tape["account"])), []
    for item in tape["answers"]:
        if item["branch"]:
            continue  # on the line of its branches
        for loss in item["losses"]:
            if left[line(loss)]:
                left[line(loss)] -= 1
            else:
                rest.append(loss)
    if rest and not covered(total(rest), total(map(json.loads, left.elements()))):
        yield f"an answer is on no line of the account: {rest[0]['name']}"
    cost, budget = total(tape["account"]), tape["budget"]
    above = cost.pure > Fraction(budget["epsilon"] or 0) * (1 + Fraction(NEAR)) or cost.square
    if budget["rho"]:
        above = cost.rho > budget["rho"] * (1 + NEAR) or cost.delta > 0
    elif budget["delta"] and (above or cost.delta > budget["delta"]):
        above = composed(cost, budget["epsilon"]) > budget["delta"] * (1 + 1e-3)
    if above and (cost.known or budget["rho"]):
        yield "the account is not shown to keep the budget"


def check(tape):
    """(violations, measured answers, all answers, largest cost over claim)."""
    near = [one for one in tape["neighbors"] if one["difference"]]
    found = [f"{one['change']}: {one['difference']}" for one in near]
    shares = []
    for name, wrong, share in answers(tape):
        found += [f"{name}: {words}" for words in wrong]
        shares.append(share)
    found += account(tape)
    known = [share for share in shares if share is not None]
    return found, len(known), len(shares), max(known, default=0.0)


def main(paths):
    broken = 0
    for path in paths:
        with open(path, encoding="utf-8") as file:
            tape = json.load(file)
        found, measured, number, largest = check(tape)
        broken += bool(found)
        print(f"{path}: {tape['subject']}: {measured} of {number} answers, largest {largest:.6f}")
        for words in found[:5]:
            print(f"    VIOLATION {words}")
    print(f"{len(paths)} tapes, {broken} with a violation")
    return 1 if broken else 0 if paths else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
