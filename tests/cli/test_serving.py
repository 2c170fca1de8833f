"""`paraudio serve` as a real process: what it says, what it registers, how it ends."""

import json
import signal
import threading
from pathlib import Path

import httpx
import pytest
from tests.cli.programs import ended
from tests.cli.serving import serving, simulated

from paraudio.engines.catalog import families
from paraudio.journal import Kind, read

pytestmark = pytest.mark.process


@pytest.mark.contract("startup/no_flag_no_slots", "startup/notice_printed")
def test_serial_server_says_so_and_gives_one_slot_each(tmp_path: Path) -> None:
    with serving(tmp_path, [simulated(), simulated(id="b", task="asr")]) as server:
        assert any("serial policy" in line for line in server.said)
        for name, family in families().items():
            assert any(f"{name}: {family.advertises}" in line for line in server.said)
        assert any("models: sim (tts), b (asr)" in line for line in server.said)
        assert [one["slots"] for one in server.get("/v1/models")["data"]] == [1, 1]
        assert server.end(signal.SIGTERM) == 0
    assert not any("Traceback" in line for line in server.said)


@pytest.mark.contract(
    "startup/flag_no_slots_capacity_one", "startup/flag_slots_1_to_16", "startup/notice_printed"
)
def test_parallel_server_loads_exactly_the_slots_it_was_given(tmp_path: Path) -> None:
    journal = tmp_path / "run.jsonl"
    slots = {"none": None, "one": 1, "five": 5.0, "most": 16}
    models = [
        simulated(id=name) if count is None else simulated(id=name, slots=count)
        for name, count in slots.items()
    ]
    with serving(tmp_path, models, "--parallel-jobs", "--journal", str(journal)) as server:
        assert any("parallel policy" in line for line in server.said)
        for name, count in slots.items():
            body = {"model": name, "request": {"text": "hi"}}
            assert server.post("/v1/tasks/run", body).status_code == 200
            model = server.model(name)
            assert model["slots"] == (count or 1)
            assert model["max_parallel_slots"] == 16
        assert server.end(signal.SIGINT) == 0
    published = {
        event.model: event.facts["sessions"]
        for event in read(journal).events
        if event.kind is Kind.PUBLISHED
    }
    assert published == {"none": 1, "one": 1, "five": 5, "most": 16}
    assert ended(tmp_path, "verify", str(journal)).returncode == 0


@pytest.mark.contract("startup/slots_over_capacity_publishes_nothing")
def test_more_slots_than_the_model_allows_publish_nothing(tmp_path: Path) -> None:
    model = simulated(slots=3, load_options={"capacity": 2})
    with serving(tmp_path, [model], "--parallel-jobs") as server:
        answer = server.post("/v1/tasks/run", {"model": "sim", "request": {"text": "hi"}})
        assert answer.status_code == 400
        error = answer.json()["error"]
        assert (error["type"], error["param"]) == ("invalid_request_error", "slots")
        assert "2" in error["message"]
        found = server.model("sim")
        assert (found["loaded"], found["state"], found["slots"]) == (False, "unloaded", 3)
        assert found["max_parallel_slots"] is None
        assert server.end(signal.SIGTERM) == 0


@pytest.mark.contract("startup/no_flag_any_slots_rejected", "startup/slots_schema_rejected")
@pytest.mark.parametrize(("slots", "flags"), [(1, []), (None, []), (17, ["--parallel-jobs"])])
def test_a_refused_start_ends_with_2_and_one_line(
    tmp_path: Path, slots: object, flags: list[str]
) -> None:
    config = tmp_path / "server.json"
    config.write_text(json.dumps({"port": 0, "models": [simulated(slots=slots)]}))
    found = ended(tmp_path, "serve", "--config", str(config), *flags)
    assert found.returncode == 2
    (line,) = found.stderr.decode().splitlines()
    assert line.startswith(f"error: {config}:1: models[0].slots")
    assert found.stdout == b""


def test_a_port_that_is_taken_ends_with_2_and_one_line(tmp_path: Path) -> None:
    with serving(tmp_path, [simulated()]) as server:
        port = server.url.rpartition(":")[2]
        found = ended(
            tmp_path,
            *("serve", "--config", str(tmp_path / "server.json"), "--port", port),
            *("--log-level", "error"),
        )
        assert server.end(signal.SIGTERM) == 0
    assert found.returncode == 2
    (line,) = found.stderr.decode().splitlines()
    assert port in line


def test_what_was_cut_is_said_and_ends_with_3(tmp_path: Path) -> None:
    model = simulated(session_options={"ignore_cancel": True, "run_ms": 60_000})
    settings = {"drain_timeout_ms": 0, "cancel_timeout_ms": 200, "hang_timeout_ms": 100}
    with serving(tmp_path, [model], "--log-format", "json", **settings) as server:
        body = {"model": "sim", "request": {"text": "hi"}}

        def ask() -> None:
            with pytest.raises(httpx.TransportError):
                server.post("/v1/tasks/run", body).raise_for_status()

        asking = threading.Thread(target=ask)
        asking.start()
        while not server.model("sim")["active_slots"]:
            pass
        assert server.end(signal.SIGTERM) == 3
        asking.join()
    messages = [json.loads(line)["message"] for line in server.said]
    assert any("sim" in message for message in messages[-3:]), messages
