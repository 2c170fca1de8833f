"""Somebody who looks at the page, and waits for what it shows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select, WebDriverWait
from tests.page.browser import PATIENCE_S


@dataclass(frozen=True)
class Watching:
    """The page of one server in one browser."""

    browser: Chrome
    url: str

    def open(self) -> None:
        self.browser.get(self.url + "/")
        assert self.browser.title == "paraudio"

    def at(self, element: str) -> WebElement:
        return self.browser.find_element(By.ID, element)

    def text(self, element: str) -> str:
        """What an element shows, whether or not it is scrolled to."""
        script = "const e = document.getElementById(arguments[0]); return e.value ?? e.textContent"
        return str(self.browser.execute_script(script, element))

    def until(self, true: Callable[[], Any], what: str) -> None:
        wait = WebDriverWait(
            self.browser, PATIENCE_S, 0.05, ignored_exceptions=[StaleElementReferenceException]
        )
        wait.until(lambda _: true(), f"never: {what}; it shows {self.shown()}")

    def shown(self) -> str:
        return str(self.browser.execute_script("return document.body.innerText"))

    def row(self, model: str) -> list[str]:
        """A row of the table of models, cell by cell."""
        script = (
            "return [...document.querySelectorAll('#models tr')]"
            ".map((row) => [...row.children].map((cell) => cell.textContent))"
            ".find((row) => row[0] === arguments[0]) ?? []"
        )
        found = self.browser.execute_script(script, model)
        assert isinstance(found, list)
        return found

    def choose(self, element: str, value: str) -> None:
        self.until(lambda: value in self.text_of_options(element), f"{value} among {element}")
        Select(self.at(element)).select_by_value(value)

    def text_of_options(self, element: str) -> list[str]:
        return [str(one.get_attribute("value")) for one in Select(self.at(element)).options]

    def server(self, model: str) -> Any:
        return httpx.get(f"{self.url}/v1/models/{model}").raise_for_status().json()

    def no_complaints(self) -> None:
        """Nothing was refused by the policy, and no script failed."""
        log = self.browser.get_log("browser")  # type: ignore[no-untyped-call]  # selenium's own
        severe = [entry["message"] for entry in log if entry["level"] == "SEVERE"]
        assert [line for line in severe if "the server responded with a status" not in line] == []
