"""The two-round protocol and a curve, by commands alone, against a collector that keeps running."""

from __future__ import annotations

import json

import numpy as np
import pytest
from collector_server import ADMIN, TOKENS, serving

from cli_runner import shell
from privmean.local.aggregators.tally import tally
from privmean.local.clients import send
from privmean.local.kernel_regression import curve
from privmean.local.two_round_mean import WinsorizedRounds
from privmean.local.vectorized import randomize_many


def run(*words, env=None, code=0):
    found = shell("collect", *words, env=env)
    assert found.exit_code == code, found.output
    return found.output


def offered(output):
    return dict(line.split(" ", 1) for line in output.splitlines())


@pytest.mark.slow
@pytest.mark.parametrize("both", [False, True])
def test_two_rounds_by_commands(tmp_path, both):
    """A collector starts empty; the vote, then the mean around its winner, without a restart."""
    rng = np.random.default_rng(7)
    values = rng.normal(700, 2, 6000)
    plan = tmp_path / "plan.json"
    (tmp_path / "token").write_text(ADMIN + "\n")
    said = run(
        "two-rounds", "plan", plan, "--lower", 0, "--upper", 1000, "--tau", 8, "--epsilon", 2,
        "--n", 6000, "--title", "Weight", *(["--both"] if both else []),
    )  # fmt: skip
    with serving(
        tmp_path, [], f"sqlite:///{tmp_path}/r.db", public=False,
        env=TOKENS,
    ) as server:  # fmt: skip
        there = ("--server", server.url, "--token-file", tmp_path / "token")
        run("two-rounds", "vote", plan, "--server", server.url, code=2)
        run("two-rounds", "mean", plan, *there, code=2)  # no vote yet: 404
        vote_id = offered(run("two-rounds", "vote", plan, *there))["round"]
        assert vote_id in said
        vote = send.fetch_round(server.url, vote_id)
        assert vote.title == "Weight"
        # two clients by command; the others in bulk
        names = [f"person-{k}" for k in range(6000)]
        for k in range(3):
            env = {"PRIVMEAN_VALUE": str(values[k])}
            said = run(
                "report", "--server", server.url, "--epsilon", 2, "--ledger", tmp_path / f"{k}.db",
                "--limit", 2, "--identity", names[k], env=env,
            )  # fmt: skip
            assert ("nothing was sent" in said) == (not both and not vote.part.chosen(names[k]))

        def asked(round_):
            part = round_.part
            chosen = [part is None or part.chosen(name) for name in names]
            return values[3:][np.array(chosen[3:])]

        send.send(server.url, vote, randomize_many(vote, asked(vote), epsilon=2).to_bytes())
        second = offered(run("two-rounds", "mean", plan, *there))
        assert offered(run("two-rounds", "mean", plan, *there)) == second  # it is the same again
        mean = send.fetch_round(server.url, second["round"])
        assert mean.digest.hex() == second["digest"]
        assert mean.lower[0] < 700 < mean.upper[0]
        assert mean.upper[0] - mean.lower[0] == pytest.approx(2 * 3 * 8)
        states = {item["round"]: item["state"] for item in send.fetch_rounds(server.url)}
        assert states == {vote_id: "closed", second["round"]: "open"}
        for k in range(3):  # the open round is found without a name
            env = {"PRIVMEAN_VALUE": str(values[k])}
            run("report", "--server", server.url, "--epsilon", 2, "--ledger", tmp_path / f"{k}.db",
                "--limit", 2, "--identity", names[k], env=env)  # fmt: skip
        send.send(server.url, mean, randomize_many(mean, asked(mean), epsilon=2).to_bytes())
        found = json.loads(run("two-rounds", "answer", plan, *there, "--json"))
        assert abs(found["raw"][0] - values.mean()) < 6 * found["spread"][0]
        assert found["radius"] < 6
        assert "clients voted" in " ".join(found["notes"])
        assert sum(found["guarantee"]["epsilon"].values()) == 6000
        assert list(found["guarantee"]["epsilon"]) == ["2"]
        text = run("two-rounds", "answer", plan, *there)
        assert "two rounds" in text
        log = [(line["action"], line["round"]) for line in
               map(json.loads, run("audit", *there).splitlines())]  # fmt: skip
        assert log == [("open", second["round"]), ("close", vote_id), ("open", vote_id)]
        # the end of a round by commands
        assert json.loads(run("close", second["round"], *there))["changed"]
        assert json.loads(run("forget", second["round"], *there))["changed"]
        again = json.loads(run("two-rounds", "answer", plan, *there, "--json"))
        assert again == found
        assert json.loads(run("delete", vote_id, *there))["changed"]
        assert "410" in run("two-rounds", "answer", plan, *there, code=2)


def test_a_plan_is_the_same_in_every_process():
    plan = WinsorizedRounds.of(
        [0, -5], [100, 5], tau=[2, 0.3], epsilon=[0.5, 1], persons=900, shares=(30, 70),
        title="Two things",
    )  # fmt: skip
    text = plan.to_json()
    again = WinsorizedRounds.from_json(text)
    assert again == plan
    assert again.to_json() == text
    assert again.vote().title == "Two things"
    assert again.vote().digest == plan.vote().digest
    for broken in ("", "{}", text.replace("two rounds", "three"), text.replace('"seed"', '"sood"')):
        with pytest.raises(ValueError, match="plan"):
            WinsorizedRounds.from_json(broken)


@pytest.mark.slow
def test_a_curve_by_commands(tmp_path):
    round_file, reports = tmp_path / "curve.json", tmp_path / "reports.bin"
    run("round", round_file, "--lower", 0, "--upper", 1, "--epsilon", 2, "--n", 3000,
        "--points", "0:1:11")  # fmt: skip
    run("round", tmp_path / "bad.json", "--lower", 0, "--upper", 1, "--epsilon", 2, "--n", 30,
        "--points", "0:1:x", code=2)  # fmt: skip
    from privmean.local.round import Round

    round_ = Round.from_json(round_file.read_text())
    assert round_.points == pytest.approx([k / 10 for k in range(11)])
    place = np.arange(3000) % 11
    batch = randomize_many(round_, np.array(round_.points)[place] ** 2, epsilon=2, points=place)
    reports.write_bytes(batch.to_bytes())
    with serving(tmp_path, [round_], f"sqlite:///{tmp_path}/r.db") as server:
        assert send.send(server.url, round_, reports.read_bytes())["accepted"] == 3000
        said = run(
            "report", "--server", server.url, "--epsilon", 2, "--ledger", tmp_path / "me.db",
            "--limit", 2, "--point", 4, "--out", tmp_path / "one.bin",
            env={"PRIVMEAN_VALUE": "0.16"},
        )  # fmt: skip
        assert json.loads(said)["accepted"] == 1
        run("report", "--server", server.url, "--epsilon", 2, "--ledger", tmp_path / "you.db",
            "--limit", 2, env={"PRIVMEAN_VALUE": "0.16"}, code=2)  # fmt: skip
        with reports.open("ab") as stream:
            stream.write((tmp_path / "one.bin").read_bytes())
        here = json.loads(
            run("curve", reports, "--round", round_file, "--bandwidth", 0.25, "--json")
        )
        asked = ("curve", "--server", server.url, "--round", round_file, "--bandwidth", 0.25)
        there = json.loads(run(*asked, "--json"))
        assert here == there
        one = f"/rounds/{round_.identifier.hex()}"
        served = json.loads(server.get(one + "/curve?bandwidth=0.25")[1])
        assert served["value"] == here["value"]
        assert served["reports"] == 3001
        assert server.get(one + "/curve?bandwidth=-1")[0] == 422
        assert server.get(one + "/curve")[0] == 422
        shown = json.loads(server.get(one + "/estimate")[1])
        assert len(shown["value"]) == len(shown["points"]) == 11
    whole = curve(tally(batch), bandwidth=0.25)
    assert here["value"] == pytest.approx(whole.value.tolist(), abs=0.05)
    text = run("curve", reports, "--round", round_file, "--bandwidth", 0.25, "--at", "0.5,0.9")
    assert len(text.splitlines()) == 6  # title, sample, table of two points
    assert "n = 3,001 reports" in text
