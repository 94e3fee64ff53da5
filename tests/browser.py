"""A real browser without a window, of the system."""

import shutil

import pytest


def made():
    """A driver of Chromium; what pages complain of is kept."""
    pytest.importorskip("selenium")
    from selenium import webdriver

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    needed = "a browser is needed: install the packages chromium and chromium-driver"
    assert chromium, needed
    assert driver, needed
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for item in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(item)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(
        options=options, service=webdriver.ChromeService(executable_path=driver)
    )
