"""The collector's page in a real browser: what it shows, keeps, and asks for."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
from collector_server import ADMIN, READER, reports_of, serving

import browser
from privmean.local.clients import send
from privmean.local.round_builders import items_round, mean_round
from privmean.local.vectorized import randomize_many

pytestmark = pytest.mark.system


class Page:
    """A browser, and what stands in its page."""

    def __init__(self) -> None:
        self.browser = browser.made()
        # a second of the page is a quarter of ours: it asks every second, and for rounds every ten
        quick = (
            "for (const name of ['setTimeout', 'setInterval']) {"
            " const real = window[name];"
            " window[name] = (work, after, ...rest) => real(work, after / 4, ...rest); }"
        )
        self.browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": quick})

    def find(self, name):
        return self.browser.find_element("id", name)

    def text(self, name):
        return self.find(name).text

    def until(self, condition):
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.browser, 30, poll_frequency=0.1).until(lambda _: condition())

    def choose(self, name, value):
        from selenium.webdriver.support.ui import Select

        Select(self.find(name)).select_by_value(value)

    def rows(self, name):
        """The cells of a table, all at one moment."""
        return self.browser.execute_script(
            "return [...document.getElementById(arguments[0]).rows]"
            ".map(row => [...row.cells].map(cell => cell.textContent))",
            name,
        )

    def drawn(self, kind):
        """The texts of these parts of the chart."""
        return self.browser.execute_script(
            "return [...document.querySelectorAll('#chart ' + arguments[0])]"
            ".map(part => part.textContent)",
            kind,
        )

    def open(self, url):
        """Like a new tab's first page."""
        self.browser.get("about:blank")
        self.browser.get_log("browser")
        self.browser.get(url)

    def leave(self):
        """What the browser complained of; the page asks for nothing more."""
        self.browser.get("about:blank")
        return [entry["message"] for entry in self.browser.get_log("browser")]


@pytest.fixture(scope="module")
def page():
    made = Page()
    yield made
    made.browser.quit()


def test_a_mean_as_it_grows_and_after_a_reload(page, tmp_path):
    closes = int(time.time()) + 2 * 86_400 + 3600
    round_ = mean_round(
        0, 10, epsilon=[0.5, 1], persons=9000, title="Hours <b>of</b> sleep", closes=closes
    )
    with serving(tmp_path, [round_], f"sqlite:///{tmp_path}/r.db") as server:
        page.open(f"{server.url}/#{round_.identifier.hex()}")
        page.until(lambda: page.text("estimate") == "5")  # no report yet: the middle
        for total in (2000, 4000, 6000, 8000):
            send.send(server.url, round_, reports_of(round_, 2000).to_bytes() + b"x")
            page.until(lambda total=total: page.text("reports") == f"{total:,}")
            page.until(lambda total=total: len(history(server, round_)) == total // 2000)
        found = json.loads(server.get(f"/rounds/{round_.identifier.hex()}/estimate")[1])
        page.until(lambda: page.text("estimate") == f"{found['value'][0]:.5g}")
        assert float(page.text("radius").strip("± ")) == pytest.approx(found["radius"], rel=1e-3)
        low, high = page.text("interval").split(" to ")
        assert float(low) == pytest.approx(found["interval"]["lower"][0], rel=1e-3)
        assert float(high) == pytest.approx(found["interval"]["upper"][0], rel=1e-3)
        assert page.text("title") == "Hours <b>of</b> sleep"
        assert page.text("planned") == "of 9,000 planned (89 %)"
        assert float(page.find("progress").get_property("value")) == pytest.approx(8 / 9, rel=1e-6)
        assert page.text("deadline").endswith("2 days left")
        assert (page.text("refused"), page.text("reasons")) == ("4", "truncated 4")
        assert page.rows("levels")[0][:3] == ["0.5", "0", "0 %"]
        assert page.rows("levels")[1][1:3] == ["8,000", "100 %"]
        assert float(page.text("influence")) == pytest.approx(found["largest_influence"], rel=1e-3)
        assert page.text("some") == "80"
        assert float(page.text("poisoning")) == pytest.approx(80 * found["largest_influence"], 1e-3)
        assert not page.find("relation-box").is_displayed()  # one level alone reported
        # axes have names and numbers
        assert page.drawn(".name") == ["reports counted", "estimate"]
        assert {"2,000", "4,000", "6,000"} <= set(page.drawn("text"))
        # a reload loses nothing: the curve comes from the server
        page.browser.refresh()
        page.until(lambda: page.text("reports") == "8,000")
        page.until(lambda: len(page.drawn(".dot")) == 4)
        assert page.find("line").get_attribute("points").count(",") == 4
        assert (len(page.drawn(".band")), len(page.drawn(".inner"))) == (1, 1)
        # the test of epsilon and the values
        own = np.where(np.arange(3000) < 2500, 0.5, 1.0)
        values = np.where(own == 1.0, 1.0, 9.0)
        send.send(server.url, round_, randomize_many(round_, values, epsilon=own).to_bytes())
        page.until(lambda: "disagree" in page.text("relation"))
        assert "every report counts the same" in page.text("relation")
        page.choose("weights", "minimax")
        page.until(lambda: "may be off" in page.text("relation"))
        assert page.leave() == []


def history(server, round_):
    return json.loads(server.get(f"/rounds/{round_.identifier.hex()}/history")[1])


def test_items_points_and_a_new_round(page, tmp_path):
    items = items_round(30, epsilon=1, persons=1000, title="Fruit")
    dose = mean_round(0, 1, epsilon=2, persons=900, title="Dose", points=[0, 0.5, 1])
    later = mean_round(0, 1, epsilon=1, persons=9, title="Later")
    with serving(
        tmp_path, [items, dose], f"sqlite:///{tmp_path}/r.db", env={"PRIVMEAN_ADMIN_TOKEN": ADMIN}
    ) as server:
        batch = randomize_many(items, np.arange(900) % 30, epsilon=1)
        send.send(server.url, items, batch.to_bytes())
        place = np.arange(600) % 3
        batch = randomize_many(dose, place / 2, epsilon=2, points=place)
        send.send(server.url, dose, batch.to_bytes())
        page.open(f"{server.url}/#../openapi.json?")  # a round is a name, never a path
        page.until(lambda: page.text("reports") not in ("0", ""))
        page.choose("rounds", items.identifier.hex())
        page.until(lambda: page.text("estimate") == "30 numbers")
        page.until(lambda: page.text("reports") == "900")
        assert len(page.rows("body")) == 20
        assert (len(page.drawn(".dot")), len(page.drawn(".whisker"))) == (20, 20)
        page.choose("rounds", dose.identifier.hex())
        page.until(lambda: page.text("estimate") == "3 numbers")
        assert [row[0] for row in page.rows("body")] == ["0", "0.5", "1"]
        assert page.drawn(".name") == ["design point", "estimate"]
        asked = "return performance.getEntriesByType('resource').map(e => e.name)"
        parts = [name.removeprefix(server.url) for name in page.browser.execute_script(asked)]
        assert all(name.startswith(("/rounds", "/page.", "data:")) for name in parts)
        server.ask("POST", "/rounds", later.to_json().encode(), ADMIN)
        page.until(lambda: "Later" in page.text("rounds"))
        assert page.leave() == []


def test_a_phone_sees_everything_without_scrolling_sideways(page, tmp_path):
    round_ = mean_round(0, 10, epsilon=[0.5, 1], persons=9000, title="Hours of sleep" * 9)
    own = np.where(np.arange(3000) < 1500, 0.5, 1.0)
    with serving(tmp_path, [round_], f"sqlite:///{tmp_path}/r.db") as server:
        values = randomize_many(round_, np.full(3000, 7.0), epsilon=own)
        send.send(server.url, round_, values.to_bytes())
        for scheme in ("light", "dark"):
            phone = {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True}
            page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
            page.browser.execute_cdp_cmd(
                "Emulation.setEmulatedMedia",
                {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
            )
            page.open(f"{server.url}/#{round_.identifier.hex()}")
            page.until(lambda: page.text("reports") == "3,000")
            wide = "return [document.documentElement.scrollWidth, innerWidth]"
            assert page.browser.execute_script(wide) == [360, 360]
            table = (
                "const t = document.querySelector('.wide'); return t.scrollWidth - t.clientWidth"
            )
            assert page.browser.execute_script(table) == 0
            colours = (
                "const c = e => getComputedStyle(e).color.match(/\\d+/g).map(Number)[1];"
                "const b = e => getComputedStyle(e).backgroundColor.match(/\\d+/g).map(Number)[1];"
                "const s = document.querySelector('section'); return [c(s), b(s)]"
            )
            ink, ground = page.browser.execute_script(colours)
            light, dark = (ink, ground) if scheme == "dark" else (ground, ink)
            assert light > 200
            assert dark < 60
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        assert page.leave() == []


def test_results_behind_a_token(page, tmp_path):
    round_ = mean_round(0, 10, epsilon=1, persons=900, title="Closed door")
    with serving(
        tmp_path, [round_], f"sqlite:///{tmp_path}/r.db", "--penalty", 0.1,
        public=False, env={"PRIVMEAN_READ_TOKEN": READER},
    ) as server:  # fmt: skip
        send.send(server.url, round_, reports_of(round_, 500).to_bytes())
        page.open(server.url)
        page.until(lambda: page.find("door").is_displayed())
        assert not page.find("results").is_displayed()
        for token, opens in (("a-wrong-and-long-token", False), (READER, True)):
            page.find("token").send_keys(token)
            page.browser.find_element("css selector", "#door button").click()
            assert page.find("token").get_property("value") == ""
            if opens:
                page.until(lambda: page.text("reports") == "500")
                assert not page.find("door").is_displayed()
            else:
                time.sleep(1.5)
                assert page.find("door").is_displayed()
        page.browser.refresh()  # the tab remembers
        page.until(lambda: page.text("reports") == "500")
        assert READER not in page.browser.page_source
        assert all("401" in line for line in page.leave())
