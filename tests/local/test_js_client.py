"""The JavaScript client: its own tests in Node, its reports before a server, and a real browser."""

from __future__ import annotations

import functools
import http.server
import json
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from wire_random import random_vectors

import browser
from collector.collector_server import serving
from doc_pages import DOCS, blocks, commands
from privmean.local import Aggregator, ball_round, items_round, mean_round
from privmean.local.aggregators.aggregator import ReportValidator
from privmean.local.clients.randomizers import real
from privmean.local.round import Round

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "clients" / "js"
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="Node is not installed (Debian: nodejs)")


@pytest.mark.slow
@needs_node
def test_the_package_passes_its_own_tests():
    files = sorted(str(path.relative_to(PACKAGE)) for path in (PACKAGE / "test").glob("*.test.js"))
    assert len(files) == 4
    done = subprocess.run(
        [str(NODE), "--test", *files], cwd=PACKAGE, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    (passed,) = re.findall(r"^(?:#|ℹ) pass (\d+)$", done.stdout, re.MULTILINE)
    assert int(passed) >= 30


def javascript(round_: Round, values, epsilon, count: int) -> bytes:
    """Reports that the JavaScript client makes with its own entropy."""
    asked = {"round": round_.to_json(), "values": values, "epsilon": epsilon, "count": count}
    done = subprocess.run(
        [str(NODE), str(PACKAGE / "test" / "report_many.js")],
        input=json.dumps(asked).encode(),
        capture_output=True,
        check=True,
    )
    return done.stdout


TEXTS = {
    "7.5": 7.5, " 7.5\n": 7.5, "\ufeff7.5": 7.5, "\u00a07.5\u2028": 7.5, "+.5": 0.5, "5.": 5.0,
    "1e400": math.inf, "-1e-400": 0.0, "7.5\x1c": None, "1_0": None, "\u0663": None, "\uff17": None,
    "inf": None, "Infinity": None, "nan": None, "0x10": None, "": None, "  ": None, "1e": None,
    "1,5": None, "1e5\0": None, "7.5\x85": None,
}  # fmt: skip


@needs_node
def test_texts_are_the_same_numbers_in_both_languages():
    wanted = [str(math.nan if number is None else number) for number in TEXTS.values()]
    assert [str(abs(real(text))) for text in TEXTS] == wanted
    module = (PACKAGE / "src" / "domain.js").as_uri()
    code = (
        f"import {{ real }} from {json.dumps(module)};"
        f"console.log(JSON.stringify({json.dumps(list(TEXTS))}.map((text) => String(real(text)))));"
    )
    asked = [str(NODE), "--input-type=module", "--eval", code]
    done = subprocess.run(asked, capture_output=True, check=True)
    assert [float(text) for text in json.loads(done.stdout)] == pytest.approx(
        [float(text) for text in wanted], nan_ok=True
    )


@pytest.mark.slow
@needs_node
def test_random_rounds_values_and_coins_agree():
    """Both make the same bytes of whatever there is to answer, and a server takes them."""
    vectors = random_vectors(f"random{os.environ.get('TEST_SALT', '')}", 80)
    done = subprocess.run(
        [str(NODE), str(PACKAGE / "test" / "compare.js")],
        input=json.dumps(vectors).encode(),
        capture_output=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found["found"] == []
    assert found["compared"] > 1000
    gates = {
        item["name"]: ReportValidator(Round.from_json(item["text"])) for item in vectors["rounds"]
    }
    for item in vectors["reports"]:
        assert gates[item["round"]].reason(bytes.fromhex(item["report"])) == ""


CASES = {
    "one-bit": (mean_round, (0, 8), [7.5, 5.5]),
    "closest": (ball_round, (2, 3), [[1.9, 0, 0], [1.5, 0.5, 0]]),
    "subset": (items_round, (6,), [4, 4, 1]),
}


@pytest.mark.slow
@needs_node
@pytest.mark.parametrize("name", CASES)
def test_a_server_counts_its_reports_and_finds_the_truth(name):
    """With its own entropy: words, normal numbers and integers below a bound."""
    build, given, values = CASES[name]
    round_ = build(*given, epsilon=[2, 4], beta=1e-8, persons=4000, mechanism=name)
    reports = javascript(round_, values, [4, 2.5, 4, 4, 2.5], 3000)  # unrelated to the values
    server = Aggregator(round_)
    receipt = server.add(reports)
    assert (receipt.accepted, receipt.rejected, receipt.duplicate) == (3000, {}, 0)
    found = server.estimate(weights="minimax")
    points = np.eye(6)[values] if name == "subset" else np.array(values)
    truth = np.atleast_1d(points.mean(axis=0))
    norm = np.linalg.norm if name == "closest" else np.max
    radius = float(np.max(found.radius))
    assert norm(np.abs(np.reshape(found.raw, truth.shape) - truth)) <= radius
    # another truth, the middle of the domain, is far enough away to be told apart
    middle = {"one-bit": 4.0, "closest": np.zeros(3), "subset": np.full(6, 1 / 6)}[name]
    assert norm(np.abs(np.reshape(found.raw, truth.shape) - middle)) > radius


@pytest.fixture(name="browser")
def browsing():
    made = browser.made()
    made.set_script_timeout(60)
    yield made
    made.quit()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def files():
    """The files of the source tree, for a browser."""
    serve = functools.partial(Quiet, directory=str(ROOT))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


VECTORS = """
const done = arguments[arguments.length - 1];
(async () => {
  const { disagreements } = await import("/clients/js/test/agreement.js");
  return disagreements(await (await fetch("/tests/vectors/wire.json")).json());
})().then(done, error => done({ found: [String(error)] }));
"""

LEDGER = """
const done = arguments[arguments.length - 1];
(async () => {
  const { Client, IndexedDBLedger, Round } = await import("/clients/js/src/index.js");
  const { hex } = await import("/clients/js/src/bytes.js");
  const answer = async (title, value, ledger) => {
    const round = Round.fromText(JSON.stringify({
      format: "privmean round", version: 1, persons: 9, seed: "5a".repeat(32), menu: ["1"], title,
      mechanism: "piecewise", lower: [0], upper: [1] }));
    try { return hex(await new Client({ epsilon: 1, ledger }).report(round, value)); }
    catch (error) { return error.name; }
  };
  const ledgers = [1, 2, 3].map(() => new IndexedDBLedger({ limit: 2, name: "test" }));
  const jobs = ["a", "a", "b", "b", "c"].flatMap(title => ledgers.map(
    async ledger => [title, await answer(title, Math.random(), ledger)]));
  return { answers: await Promise.all(jobs), spent: await ledgers[0].spent() };
})().then(done, error => done({ error: String(error) }));
"""


@pytest.mark.system
def test_the_vectors_and_the_ledger_hold_in_a_browser(browser, files):
    browser.get(f"{files}/clients/js/src/demo.css")  # some page of that origin
    found = browser.execute_async_script(VECTORS)
    assert found["found"] == []
    assert found["compared"] > 600
    result = browser.execute_async_script(LEDGER)
    assert result.get("spent") == 2, result
    for title in "abc":  # three handles of one database, at once: one report a round
        assert len({answer for name, answer in result["answers"] if name == title}) == 1
    said = {answer for _, answer in result["answers"]}
    assert len(said) == 3
    assert "BudgetExceeded" in said


@pytest.mark.system
def test_a_person_reports_one_value_from_the_page_of_a_collector(browser, tmp_path):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import Select, WebDriverWait

    sleep = mean_round(0, 24, epsilon=[0.5, 1], persons=100, title="Hours of sleep")
    fruit = items_round(5, epsilon=1, persons=100, title="Fruit", mechanism="subset")
    with serving(tmp_path, [sleep, fruit], f"sqlite:///{tmp_path}/r.db") as server:
        wait = WebDriverWait(browser, 20, poll_frequency=0.1)
        assert server.get("/client")[0] == 307  # to /client/
        assert server.get("/client/node_modules")[0] == 404
        browser.get(f"{server.url}/client/#{sleep.identifier.hex()}")

        def at(name):
            return browser.find_element(By.ID, name)

        def count(round_):
            found = json.loads(server.get(f"/rounds/{round_.identifier.hex()}/estimate")[1])
            return found["reports"]

        wait.until(lambda _: at("send").is_enabled())
        assert sleep.digest.hex() in at("question").text
        assert "from 0 to 24" in at("kind").text
        browser.set_window_size(500, 900)
        width = "return document.documentElement.scrollWidth <= window.innerWidth"
        assert browser.execute_script(width)  # a phone has nothing to scroll sideways
        Select(at("epsilon")).select_by_visible_text("1")
        at("value").send_keys("7.5")
        at("send").click()
        wait.until(lambda _: "has counted" in at("said").text)
        sent = at("bytes").text
        assert re.fullmatch(f"4c440101{sleep.identifier.hex()}[0-9a-f]{{62}}", sent)
        assert (count(sleep), at("spent").text, at("waiting").text) == (1, "1", "0")

        browser.refresh()  # nothing is forgotten, and a second answer is the first one
        wait.until(lambda _: at("send").is_enabled())
        assert at("spent").text == "1"
        at("value").send_keys("20")
        at("send").click()
        wait.until(lambda _: "already" in at("said").text)
        assert at("bytes").text == sent
        assert count(sleep) == 1

        Select(at("round")).select_by_visible_text("Fruit")
        wait.until(lambda _: fruit.digest.hex() in at("question").text)
        at("send").click()  # no value: a report all the same
        wait.until(lambda _: at("spent").text == "2")
        wait.until(lambda _: "has counted" in at("said").text)
        assert count(fruit) == 1
        asked = "return performance.getEntriesByType('resource').map(e => e.name)"
        assert all(name.startswith(server.url) for name in browser.execute_script(asked))
        assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


@pytest.mark.system
def test_the_commands_of_the_page_bring_a_new_user_to_a_report(browser, tmp_path, monkeypatch):
    """docs/local.md, as it stands, but for a free port: five commands at most."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    (block,) = (b for b in blocks(DOCS / "local.md") if "/client/" in b.text)
    install, make, serve, look = commands(block.text)
    assert install == "pip install 'privmean[collector]'"
    monkeypatch.chdir(tmp_path)
    privmean = [sys.executable, "-m", "privmean"]
    subprocess.run([*privmean, *shlex.split(make)[1:]], check=True, capture_output=True)
    served = [*privmean, *shlex.split(serve)[1:], "--port", "0", "--log", "none"]
    with subprocess.Popen(served, stdout=subprocess.PIPE, text=True) as process:
        try:
            url = process.stdout.readline().split()[-1]
            page = shlex.split(look)[1].replace("http://127.0.0.1:8000", url)
            browser.get(page)
            wait = WebDriverWait(browser, 20, poll_frequency=0.1)
            wait.until(lambda _: browser.find_element(By.ID, "send").is_enabled())
            browser.find_element(By.ID, "value").send_keys("7.5")
            browser.find_element(By.ID, "send").click()
            said = browser.find_element(By.ID, "said")
            wait.until(lambda _: said.text == "the server has counted the report")
            browser.get(url)  # the collector's own page shows it
            wait.until(lambda _: browser.find_element(By.ID, "reports").text == "1")
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=30) == 0


def test_what_a_collector_serves_is_the_package():
    pytest.importorskip("fastapi")
    from privmean.collector.collector_app import page_files

    own = {path.name: path.read_bytes() for path in (PACKAGE / "src").iterdir()}
    served = {name.removeprefix("/client/"): data for name, data in page_files().items()
              if name.startswith("/client/") and name != "/client/"}  # fmt: skip
    assert {"index.html", "demo.js", "demo.css", "index.js"} <= set(served)
    assert all(own[name] == data for name, data in served.items())
    imports = re.compile(r'from "\./([a-z]+\.js)"')
    for name in set(served) - {"node.js"}:
        for other in imports.findall(served[name].decode()):
            assert other in served, f"{name} needs {other}"
        assert "node:" not in served[name].decode(), name


def test_the_package_names_no_host_and_no_dependency():
    package = json.loads((PACKAGE / "package.json").read_text())
    assert not {key for key in package if "ependencies" in key}
    assert not list(PACKAGE.glob("*lock*"))
    assert "://" not in (PACKAGE / "package.json").read_text()
