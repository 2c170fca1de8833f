"""A headless Chromium, driven through its own driver; nothing of it leaves this machine."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from selenium import webdriver

PATIENCE_S: Final = 60.0
"""After this a page that does not do what is waited for has failed."""

FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--autoplay-policy=no-user-gesture-required",
    "--no-proxy-server",
)


@contextmanager
def open_browser(profile: Path, flags: Sequence[str] = ()) -> Iterator[webdriver.Chrome]:
    """A browser with a profile of its own; skips the test where there is none.

    Args:
        profile: An empty folder.
        flags: Further flags of Chromium.
    """
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("Chromium and its driver are not installed (CI installs them)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={profile}", *flags):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=driver)
    browser = webdriver.Chrome(options=options, service=service)
    try:
        browser.set_script_timeout(PATIENCE_S)
        yield browser
    finally:
        browser.quit()
