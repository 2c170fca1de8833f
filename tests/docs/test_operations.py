"""The samples of the page on operations give the server the time that it promises to need."""

import re

import pytest
from tests.docs.examples import ROOT, examples

from paraudio.config import load
from paraudio.http import ROUTES

PAGE = ROOT / "docs" / "operations.md"


@pytest.fixture
def bound_s() -> float:
    """What the end of a server with the default settings may take."""
    settings = load(config=None, environ={}, flags={}).settings
    return (settings.drain_timeout_ms + settings.cancel_timeout_ms) / 1000 + 1


def sample(section: str, word: str) -> str:
    (found,) = (one.code for one in examples(PAGE) if one.section == section and word in one.code)
    return found


def number(text: str, key: str) -> float:
    found = re.search(rf"{key}[=:]\s*(\d+)", text)
    assert found is not None, f"the sample has no {key}"
    return float(found[1])


def test_the_unit_waits_for_the_end_and_keeps_the_exit_code(bound_s: float) -> None:
    text = sample("systemd", "ExecStart=")
    service = dict(re.findall(r"^(\w+)=(.*)$", text, flags=re.MULTILINE))
    assert service["Type"] == "notify"
    assert float(service["TimeoutStopSec"]) > bound_s
    assert service["SuccessExitStatus"] == "3"
    # Else systemd would send SIGTERM to workers too, and end runs that may finish.
    assert service["KillMode"] == "mixed"


def test_the_pod_waits_for_its_pause_and_the_end_and_probes_what_there_is(bound_s: float) -> None:
    pod = sample("Kubernetes", "terminationGracePeriodSeconds")
    pause = re.search(r'command: \["sleep", "(\d+)"\]', pod)
    assert pause is not None
    assert number(pod, "terminationGracePeriodSeconds") > float(pause[1]) + bound_s
    paths = set(re.findall(r"path: ([^,\s]+)", pod))
    assert paths == {"/health/live", "/health/ready"}
    assert paths <= {route.path for route in ROUTES}
