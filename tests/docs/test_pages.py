"""The documents say what the code says."""

import re
import tomllib
from pathlib import Path

import pytest
from tools import reference

import paraudio
from paraudio.engines.catalog import families

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def test_the_tables_are_what_the_code_says() -> None:
    assert reference.stale() == [], "run python tools/reference.py"


def test_a_changed_table_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = tmp_path / "configuration.md"
    page.write_text(text("docs/configuration.md").replace("`8080`", "`8081`", 1))
    monkeypatch.setattr(reference, "PAGES", [page])
    assert reference.stale() == ["configuration.md"]


def test_every_family_has_its_options_on_the_page() -> None:
    page = text("docs/engines.md")
    assert [name for name in families() if f"<!-- options {name} -->" not in page] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_link_to_another_page_leads_there(page: Path) -> None:
    links = re.findall(r"\]\((?!https?://|#)([^)#\s]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads(text("pyproject.toml"))
    wanted = {
        re.split(r"[\[<>=;~ ]", requirement)[0]
        for requirement in project["project"]["dependencies"]
    }
    table, _, rest = text("docs/decisions.md").partition("Only for development")
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert set(re.findall(r"`([a-z0-9-]+)`", " ".join(rows).replace("`trio` extra", ""))) == wanted
    developing = {re.split(r"[\[<>=]", each)[0] for each in project["dependency-groups"]["dev"]}
    assert {name for name in developing if f"`{name}`" not in rest} == set()


def test_the_changes_begin_with_this_version() -> None:
    first = re.search(r"^## (\S+)", text("CHANGELOG.md"), flags=re.MULTILINE)
    assert first is not None
    assert first[1] == paraudio.__version__
