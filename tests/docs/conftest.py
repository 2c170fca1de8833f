"""One server for all pages."""

from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome
from tests.docs.reader import ORIGIN, Reader, reading
from tests.page.browser import open_browser

from paraudio.store import Store

FLAGS = ("--cors-origins", f"http://{ORIGIN}")
"""What a page asks for beyond `paraudio serve`; a test holds the pages to it."""


@pytest.fixture(scope="session")
def served(model_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """A reader beside the server, in the folder that the server was started in."""
    with reading(tmp_path_factory.mktemp("reader"), model_store.home, FLAGS) as reader:
        yield reader


@pytest.fixture(scope="module")
def reader(served: Reader, tmp_path_factory: pytest.TempPathFactory) -> Reader:
    """The reader in a folder of the module's own."""
    return served.at(tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """Somebody's browser."""
    with open_browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser
