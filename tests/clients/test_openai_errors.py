"""What the ``openai`` package makes of our errors, and which of them it tries again."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from tests.clients.conftest import LONG, Seen
from tests.server.harness import simulated, started

pytestmark = [pytest.mark.process, pytest.mark.models]

MODELS = [
    simulated("narrow", run_ms=60_000) | {"max_queued_requests": 1},
    simulated("broken", fail_loads=100),
    simulated("quick", run_ms=1),
    simulated("impatient", run_ms=60_000) | {"busy_timeout_ms": 50},
]


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """A server that needs a key."""
    folder = tmp_path_factory.mktemp("keyed")
    with started(folder, MODELS, api_keys=["first", "second"]) as served:
        served.url = served.hear("listening on ").partition("listening on ")[2].split()[0]
        served.may_fail = True
        headers = {"Authorization": "Bearer second"}
        with httpx.Client(base_url=served.url, timeout=60, headers=headers) as http:
            yield Seen(served, http)


def client_of(seen: Seen, **more: Any) -> openai.OpenAI:
    return openai.OpenAI(
        **{"base_url": seen.base_url, "api_key": "first", "max_retries": 0, "timeout": 60, **more}
    )


def speak(client: openai.OpenAI, model: str = "quick", **more: Any) -> bytes:
    asked = {"voice": "alloy", "input": "Hello.", **more}
    return client.audio.speech.create(model=model, **asked).content


def statuses(seen: Seen, since: int, model: str) -> list[str]:
    """How the requests for a model were answered, as the log has it."""
    seen.mark()
    lines = [line for line in seen.requests(since) if f'model="{model}"' in line]
    return [line.partition(" status=")[2].split()[0] for line in lines]


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"input": ""}, "input"),
        ({"speed": 40}, "speed"),
        ({"response_format": "tape"}, "response_format"),
        ({"extra_body": {"seed": -1}}, "seed"),
        ({"extra_body": {"options": {"no_such": 1}}}, "options.no_such"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_a_bad_request_with_its_field(
    keyed: Seen, more: dict[str, Any], param: str
) -> None:
    with client_of(keyed, max_retries=2) as client:
        before = keyed.mark()
        with pytest.raises(openai.BadRequestError) as refused:
            speak(client, **more)
    error = refused.value
    assert (error.status_code, error.param, error.type) == (400, param, "invalid_request_error")
    assert isinstance(error.body, dict)
    assert param in error.body["message"]
    assert error.request_id
    keyed.until_said(error.request_id, since=before)
    assert len(keyed.requests(before)) == 1, "it is not tried again"


def test_an_unknown_model_is_not_found(keyed: Seen) -> None:
    with client_of(keyed) as client, pytest.raises(openai.NotFoundError) as missing:
        speak(client, "quck")
    assert (missing.value.code, missing.value.param) == ("model_not_found", "model")
    assert "quick" in missing.value.message


def test_an_unknown_route_is_not_found(keyed: Seen) -> None:
    with client_of(keyed) as client, pytest.raises(openai.NotFoundError):
        client.embeddings.create(model="quick", input="a")


@pytest.mark.parametrize("key", ["", "third", "first second"])
def test_a_wrong_key_is_an_authentication_error(keyed: Seen, key: str) -> None:
    with client_of(keyed, api_key=key or "none") as client:
        for ask in (lambda: speak(client), client.models.list):
            with pytest.raises(openai.AuthenticationError) as refused:
                ask()
            assert refused.value.response.headers["www-authenticate"] == "Bearer"


def test_each_key_opens(keyed: Seen) -> None:
    for key in ("first", "second"):
        with client_of(keyed, api_key=key) as client:
            assert speak(client)


def test_a_load_that_fails_is_an_internal_error(keyed: Seen) -> None:
    with client_of(keyed) as client, pytest.raises(openai.InternalServerError) as failed:
        speak(client, "broken")
    assert failed.value.status_code == 500
    assert failed.value.request_id


def test_a_wait_that_is_too_long_is_an_error_that_says_when_to_come_back(keyed: Seen) -> None:
    with client_of(keyed) as client, ThreadPoolExecutor(1) as threads:
        holder = threads.submit(lambda: outcome(client, "impatient"))
        keyed.until_busy("impatient")
        with pytest.raises(openai.InternalServerError) as busy:
            speak(client, "impatient")
        assert (busy.value.status_code, busy.value.code) == (503, "server_busy")
        assert int(busy.value.response.headers["retry-after"]) >= 1
        cancel_all(keyed)
        assert isinstance(holder.result(30), openai.APIStatusError)


def outcome(client: openai.OpenAI, model: str) -> bytes | openai.APIStatusError:
    try:
        return speak(client, model)
    except openai.APIStatusError as error:
        return error


def cancel_all(seen: Seen) -> None:
    """End every request by its ID."""
    for request in seen.http.get("/v1/requests").json()["data"]:
        seen.http.delete(f"/v1/requests/{request['id']}")


def test_a_full_queue_is_tried_again_after_the_time_that_the_server_names(keyed: Seen) -> None:
    since = keyed.mark()
    with client_of(keyed, max_retries=2) as client, ThreadPoolExecutor(3) as threads:
        once = client.with_options(max_retries=0)
        line: list[Future[bytes | openai.APIStatusError]] = []
        line.append(threads.submit(outcome, once, "narrow"))
        keyed.until_busy("narrow")
        line.append(threads.submit(outcome, once, "narrow"))
        keyed.until(lambda model: model["queued_requests"] == 1, "narrow")

        def late() -> bytes:
            return speak(client, "narrow", extra_body={"options": {"run_ms": 1}})

        patient = threads.submit(late)
        keyed.until_said('model="narrow" status=503', since)
        cancel_all(keyed)
        assert patient.result(60).startswith(b"RIFF")
        assert [type(one.result(30)) for one in line] == [openai.APIStatusError] * 2
    found = statuses(keyed, since, "narrow")
    assert sorted(found)[:1] == ["200"]
    assert found.count("503") >= 1
    assert found.count("499") == 2, "one that was cancelled is not tried again"


def test_a_request_that_somebody_cancels_is_told_and_not_tried_again(keyed: Seen) -> None:
    since = keyed.mark()
    with client_of(keyed, max_retries=2) as client, ThreadPoolExecutor(1) as threads:
        asked = threads.submit(outcome, client, "narrow")
        keyed.until_busy("narrow")
        cancel_all(keyed)
        error = asked.result(30)
    assert isinstance(error, openai.APIStatusError)
    assert (error.status_code, error.code) == (499, "request_cancelled")
    assert statuses(keyed, since, "narrow") == ["499"]


def test_a_timeout_frees_the_slot_and_each_try_is_a_request_of_its_own(keyed: Seen) -> None:
    since = keyed.mark()
    with client_of(keyed, timeout=0.3, max_retries=1) as client:
        with pytest.raises(openai.APITimeoutError):
            speak(client, "narrow")
        keyed.until_idle("narrow")
    keyed.until(lambda _: len(statuses(keyed, since, "narrow")) == 2, "narrow")
    assert statuses(keyed, since, "narrow") == ["0", "0"]


def test_a_shutdown_is_an_error_that_says_when_to_come_back(tmp_path: Path) -> None:
    with started(tmp_path, MODELS, drain_ms=300) as served, httpx.Client() as http:
        served.url = served.hear("listening on ").partition("listening on ")[2].split()[0]
        http.base_url = httpx.URL(served.url)
        seen = Seen(served, http)
        found: list[bytes | openai.APIStatusError] = []
        with client_of(seen) as client:

            def ask() -> None:
                found.append(outcome(client, "narrow"))

            holder = threading.Thread(target=ignore_the_end, args=(client, "narrow"))
            holder.start()
            seen.until_busy("narrow")
            waiting = threading.Thread(target=ask)
            waiting.start()
            seen.until(lambda model: model["queued_requests"] == 1, "narrow")
            served.signal()
            waiting.join(30)
            holder.join(30)
        (error,) = found
        assert isinstance(error, openai.InternalServerError)
        assert (error.status_code, error.code) == (503, "shutting_down")
        assert "retry-after" in error.response.headers


def ignore_the_end(client: openai.OpenAI, model: str) -> None:
    """Ask, and take whatever comes: an answer, an error, or a connection that breaks."""
    try:
        speak(client, model, input=LONG)
    except openai.APIError:
        return
