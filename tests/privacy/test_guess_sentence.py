"""The sentence on a guess: its numbers follow from the relation, and no text has others.

Nothing here uses the formulas of `privmean.privacy.guarantee`. A guarantee is the trade-off
function f of its weakest test between two neighbors: f(a) is the least share of misses at false
alarms a. Two steps, away from a person's values and to other ones, have the power g(g(a)), g = 1 -
f.
"""

import math
import re
import warnings

import numpy as np
import pytest
from scipy import stats

import privmean as pm
from doc_pages import ROOT
from privmean.cli.app import run
from privmean.cli.study_commands import told as told_by_the_command
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.guarantee import (
    Guarantee,
    guess_bound,
    guess_right_of_values,
    percent,
    risk_sentence,
)

ALARMS = np.concatenate([[0.0], np.geomspace(1e-16, 0.5, 200_001), 1 - np.geomspace(0.5, 1e-16, 9)])
PAIRS = ("add-remove", "zero-out")
SMALL = [0.01, 0.1, 0.5, 1.0, 2.0, 3.0, 5.0]


def power(epsilon, delta=0.0):
    """1 minus the trade-off function of (epsilon, delta)."""

    def of(alarms):
        steep = delta + math.exp(epsilon) * alarms
        flat = 1 - math.exp(-epsilon) * (1 - delta - alarms)
        return np.clip(np.minimum(steep, flat), 0.0, 1.0)

    return of


def gaussian_power(mu):
    return lambda alarms: stats.norm.sf(stats.norm.isf(alarms) - mu)


def best_share(found, alarms=ALARMS):
    """Right guesses of the best test, where both tables are equally likely."""
    return (1 + float(np.max(found - alarms))) / 2


def two_steps(step):
    return step(step(ALARMS))


def least_line(found, epsilon):
    """The least delta for which `found` keeps (epsilon, delta)."""
    return float(np.max(found - math.exp(epsilon) * ALARMS))


def share_of_line(epsilon, delta):
    """Right guesses of the best test of (epsilon, delta), from its trade-off function."""
    meet = (1 - delta) / (1 + math.exp(epsilon))  # where the two branches meet
    return best_share(power(epsilon, delta)(np.array([meet])), np.array([meet]))


@pytest.mark.parametrize("epsilon", SMALL)
@pytest.mark.parametrize("delta", [0.0, 1e-6, 1e-3])
def test_neighbors_are_told_apart_as_well_as_the_trade_off_allows(epsilon, delta):
    expected = share_of_line(epsilon, delta)
    assert guess_bound(epsilon, delta) == pytest.approx(expected, rel=1e-12)
    made = Guarantee("replace-one", (), epsilon=epsilon, delta=delta)
    assert guess_right_of_values(made) == guess_bound(epsilon, delta)


@pytest.mark.parametrize("relation", PAIRS)
@pytest.mark.parametrize("epsilon", SMALL)
@pytest.mark.parametrize("delta", [0.0, 1e-6, 1e-3])
def test_values_are_two_steps_apart(relation, epsilon, delta):
    """The composed curve keeps (2 epsilon, delta') with the delta' found here; its own best test is
    not above what is printed, and better than what is printed of presence."""
    found = two_steps(power(epsilon, delta))
    needed = least_line(found, 2 * epsilon)
    assert needed == pytest.approx((1 + math.exp(epsilon)) * delta, rel=1e-6, abs=1e-12)
    made = Guarantee(relation, (), epsilon=epsilon, delta=delta)
    printed = guess_right_of_values(made)
    assert printed == pytest.approx(min(1.0, share_of_line(2 * epsilon, needed)), rel=1e-6)
    assert guess_bound(epsilon, delta) < best_share(found) <= printed + 1e-9


@pytest.mark.parametrize("relation", PAIRS)
@pytest.mark.parametrize("rho", [1e-4, 0.01, 0.1, 0.5, 2.0, 8.0])
def test_two_steps_of_zcdp_are_four_times_rho(relation, rho):
    """The Gaussian mechanism of this rho, whose two steps are one of twice the distance."""
    mu = math.sqrt(2 * rho)
    inner = (ALARMS > 0) & (ALARMS < 1)
    found = two_steps(gaussian_power(mu))
    far = gaussian_power(2 * mu)(ALARMS)
    assert np.allclose(found[inner], far[inner], rtol=1e-6, atol=1e-9)
    made = Guarantee(relation, (), rho=rho)
    printed = guess_right_of_values(made)
    assert printed == guess_bound(None, 0.0, (2 * mu) ** 2 / 2)
    assert best_share(far) <= printed + 1e-9
    assert printed - 0.5 <= 1.5 * (best_share(far) - 0.5)
    assert guess_bound(None, 0.0, rho) < printed or printed == 1.0


def test_the_sentences():
    def words(relation, **loss):
        return risk_sentence(Guarantee(relation, (), **loss))

    assert words("replace-one", epsilon=1.0) == (
        "a guess about one person that is right 50% of the time without this release is right at "
        "most 74% of the time with it"
    )
    assert words("add-remove", epsilon=1.0) == (
        "a guess whether one person is in the data that is right 50% of the time without this "
        "release is right at most 74% of the time with it; a guess about a person's values, "
        "at most 89%"
    )
    zeroed = words("zero-out", epsilon=1.0, delta=1e-6)
    assert "values were replaced by the center" in zeroed
    assert zeroed.endswith("74% of the time with it; a guess about a person's values, at most 89%")
    assert words("add-remove", rho=0.5).endswith(
        "75% of the time with it; a guess about a person's values, at most 94%"
    )


TABLE = {"u": np.arange(2000), "x": np.random.default_rng(1).normal(5, 1, 2000)}
LOSSES = [{"epsilon": 1.0}, {"epsilon": 0.7, "delta": 1e-6}, {"rho": 0.1}]


def plain(text):
    return " ".join(
        re.sub(r"<[^>]+>", " ", text).replace("&#39;", "'").replace("&#x27;", "'").split()
    ).replace(". A guess ", ". a guess ")  # the sentence as a sentence


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_whatever_prints_a_promise_prints_its_sentence(relation, loss, tmp_path):
    people = pm.Table(TABLE, person="u")
    terms = {"neighbors": relation, **loss}
    given = {} if relation == "replace-one" else {"n_guess": 2000}
    release = pm.mean(people, "x", assume=(0, 10), noise=SimulatedNoise(1), **terms, **given)
    expected = risk_sentence(release.guarantee)
    for text in (str(release), release.details(), release._repr_html_()):
        assert expected in plain(text)
    study = pm.Study(people, **terms, **given, noise=SimulatedNoise(2))
    study.add("x", pm.Mean("x", assume=(0, 10)))
    plan, made = study.plan(), study.release()
    made.report(tmp_path / "report.html")
    told = risk_sentence(made.guarantee)
    assert told in plain(str(plan))
    assert told in plain(str(made))
    assert told in plain(told_by_the_command(made.to_dict(), tmp_path))
    made.report(tmp_path / "report.md")
    for name in ("report.html", "report.md", "accounting.html"):
        page = plain((tmp_path / name).read_text())
        assert page.count(told[1:]) == page.count("right at most") == 1, name


FOLDERS = ("src", "docs", "examples", "clients", "benchmarks")
ENDINGS = {".md", ".py", ".html", ".js", ".mjs", ".svg", ".txt", ".ipynb", ".yml", ".toml"}
WHOLE = re.compile(
    r"a guess (?:about one|whether one) .{0,60}?is right 50% of the time without this release is "
    r"right at most [\d.]+% of the time with it"
    r"(?:; a guess about a person's values, at most [\d.]+%)?",
    re.I,
)
LOSS = re.compile(r"epsilon = ([\d.]+)(?:, delta = ([\d.e-]+))? \((?:pure|approximate) DP\)")
RELATION = re.compile(r"replace-one|add-remove|zero-out")
ANY = re.compile(r"right at most|right 50 ?%", re.I)


def texts():
    found = [ROOT / "README.md", ROOT / "SECURITY.md", ROOT / "CONTRIBUTING.md"]
    for folder in FOLDERS:
        found += [p for p in sorted((ROOT / folder).rglob("*")) if p.suffix in ENDINGS]
    return [p for p in found if "node_modules" not in p.parts and p.name != "guarantee.py"]


def test_no_text_has_a_sentence_of_its_own():
    """Every guess that a page or a file speaks of is the one that its promise derives."""
    seen = 0
    for path in texts():
        text = " ".join(path.read_text(errors="replace").split())
        for match in WHOLE.finditer(text):
            before = text[max(match.start() - 200, 0) : match.start()]
            epsilon, delta = (float(number or 0) for number in LOSS.findall(before)[-1])
            made = Guarantee(RELATION.findall(before)[-1], (), epsilon=epsilon, delta=delta)
            assert match[0].lower() == risk_sentence(made).lower(), path
            seen += 1
        rest = WHOLE.sub("", text)
        assert not ANY.search(rest), f"{path}: {ANY.search(rest)}"
    assert seen >= 4


def test_the_table_of_the_page_on_epsilon_is_computed():
    page = (ROOT / "docs" / "choose-epsilon.md").read_text()
    lines = re.findall(r"^\| ([\d.]+) \| ([\d.]+%) \| ([\d.]+%) \| ([\d.]+%) \|", page, re.M)
    assert len(lines) == 6
    for epsilon, one, presence, values in lines:
        loss = {"epsilon": float(epsilon)}
        assert one == presence == percent(guess_bound(**loss))
        assert values == percent(guess_right_of_values(Guarantee("add-remove", (), **loss)))


def test_numbers_of_numpy_are_rounded_up_as_others():
    for share in (0.731, 0.55, 1 - 1e-7):
        assert percent(np.float64(share)) == percent(share)


# --- a delta that is no promise -------------------------------------------------------------------


def test_a_delta_that_is_no_promise_is_said_before_the_charge(tmp_path, capsys):
    rows = np.random.default_rng(1).normal(10, 2, 2000)
    ledger = pm.Ledger(epsilon=100, delta=0.4)
    with pytest.warns(pm.PrivmeanWarning, match="not below 1/n"):
        pm.mean(rows, epsilon=1, delta=1 / 2000, assume=pm.SubGaussian(sd=2.0), ledger=ledger)
    for fine in ({"delta": 4e-4, "assume": pm.SubGaussian(sd=2.0)}, {"delta": 0.1}, {}):
        pm.mean(rows, epsilon=1, **fine)  # small enough; a pure bill, which spends no delta
    study = pm.Study(pm.Table({"who": np.arange(2000), "x": rows}, person="who"), rho=0.1)
    study.add("x", pm.Mean("x"))
    study.release()
    path = tmp_path / "rows.csv"
    path.write_text("who,x\n" + "\n".join(f"{i},{x}" for i, x in enumerate(rows)))
    said = ["mean", str(path), "--person", "who", "--value", "x", "--epsilon", "1"]
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert run([*said, "--delta", "0.01", "--sd", "2"]) == 0
    assert "privmean: delta=0.01 is not below" in capsys.readouterr().err
