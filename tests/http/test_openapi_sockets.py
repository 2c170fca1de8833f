"""Hostile websockets: whatever is said to a session, it answers, goes on, and leaves nothing."""

import base64
import json
import os
from typing import Any, Final

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.http.conftest import EARS, OpenWorld
from tests.http.openapi import Document
from tests.http.realtimekit import connect

from paraudio.spec import ModelSpec

SECONDS: Final = float(os.environ.get("PARAUDIO_FUZZ_S", "0"))
TURN_S: Final = 15
VAD: Final = ModelSpec(id="vad", family="simulated", path="/models/vad", task="vad")
ERROR: Final = Document({}).all["components"]["schemas"]["Error"]["properties"]["error"]
FAILED: Final = 1011

SOUND: Final = base64.b64encode(bytes(range(256)) * 40).decode()
LOUD: Final = base64.b64encode(b"\x00\x40" * 12_000).decode()
KINDS: Final[tuple[object, ...]] = (
    "session.update",
    "transcription_session.update",
    "input_audio_buffer.append",
    "input_audio_buffer.commit",
    "input_audio_buffer.clear",
    "response.create",
    "",
    None,
    1,
    {},
)
LEAVES: Final = st.sampled_from(
    (
        None,
        True,
        -1,
        0,
        1,
        0.5,
        1e308,
        2**70,
        "",
        "x",
        "ears",
        "vad",
        "nobody",
        "transcription",
        "server_vad",
        "semantic_vad",
        "pcm16",
        "g711_ulaw",
        "audio/pcm",
        "audio/pcma",
        "en",
        "\ud7ff\U0010ffff",
        SOUND,
        LOUD,
        "A",
        "====",
        "A" * 100_001,
        [],
        ["item.input_audio_transcription.partial"],
    )
)
NAMES: Final = st.sampled_from(
    (
        "type",
        "audio",
        "input",
        "format",
        "rate",
        "transcription",
        "input_audio_transcription",
        "input_audio_format",
        "turn_detection",
        "model",
        "language",
        "prompt",
        "threshold",
        "prefix_padding_ms",
        "silence_duration_ms",
        "include",
        "event_id",
        "session",
        "x",
    )
)
VALUES: Final = st.recursive(
    LEAVES, lambda inner: st.dictionaries(NAMES, inner, max_size=4) | st.lists(inner, max_size=3)
)


@st.composite
def fitting(draw: st.DrawFn) -> dict[str, Any]:
    """An update that is right but for its values."""
    detection = draw(
        st.none()
        | st.fixed_dictionaries(
            {},
            optional={
                "type": LEAVES,
                "threshold": LEAVES,
                "prefix_padding_ms": LEAVES,
                "silence_duration_ms": LEAVES,
                "model": LEAVES,
            },
        )
    )
    heard = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "model": LEAVES,
                "language": LEAVES,
                "prompt": LEAVES,
            },
        )
    )
    form = {"type": draw(LEAVES), "rate": draw(LEAVES)}
    nested = {"format": form, "transcription": heard, "turn_detection": detection}
    flat = {
        "input_audio_format": draw(LEAVES),
        "input_audio_transcription": heard,
        "turn_detection": detection,
    }
    kept = draw(st.sets(st.sampled_from((*nested, *flat))))
    inner = {name: value for name, value in nested.items() if name in kept}
    outer = {name: value for name, value in flat.items() if name in kept}
    session = draw(st.sampled_from([{"audio": {"input": inner}}, outer]))
    return {"type": draw(st.sampled_from(KINDS[:2])), "session": session}


def sound(text: str) -> str:
    return json.dumps({"type": "input_audio_buffer.append", "audio": text})


MESSAGES: Final = st.one_of(
    fitting().map(json.dumps),
    st.builds(
        lambda kind, more: json.dumps({**more, "type": kind}),
        st.sampled_from(KINDS),
        st.dictionaries(NAMES, VALUES, max_size=4),
    ),
    st.sampled_from([sound(LOUD), sound(SOUND), sound(LOUD)]),
    st.sampled_from(['{"type": "input_audio_buffer.commit"}']),
    st.sampled_from(["", "{", "[" * 3000, "null", '{"type": "a", "type": "b"}', '{"a": NaN}']),
    st.text(max_size=20),
    st.binary(max_size=20),
)
HEADS: Final = st.sampled_from(
    (
        {},
        {"openai-beta": "realtime=v1"},
        {"openai-beta": "\xff" * 50},
        {"origin": "https://page.example"},
        {"sec-websocket-protocol": "realtime, openai-insecure-api-key.x, ,"},
    )
)
TARGETS: Final = st.sampled_from(
    (
        *["/v1/realtime?model=ears"] * 6,
        "/v1/realtime",
        "/v1/realtime?model=vad",
        "/v1/realtime?model=%ff",
        "/v1/realtime?intent=transcription&model=ears&busy_timeout_ms=5",
        "/v1/realtime?busy_timeout_ms=x",
        "/v1/audio/speech",
        "/nowhere",
    )
)


# A long time is many turns: Hypothesis remembers much of every example.
@pytest.mark.parametrize("turn", range(1 + int(SECONDS / TURN_S)))
@settings(
    max_examples=int(20 * TURN_S) if SECONDS else 30,
    derandomize=not SECONDS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
)
@given(case=st.tuples(TARGETS, HEADS, st.lists(MESSAGES, max_size=12), st.booleans()))
async def test_a_hostile_session_is_answered_and_leaves_nothing(
    open_world: OpenWorld, turn: int, case: tuple[str, dict[str, str], list[str | bytes], bool]
) -> None:
    del turn
    target, head, messages, leaves = case
    async with open_world(EARS, VAD, threads=True) as world:
        async with trio.open_nursery() as nursery:
            with trio.fail_after(60):
                socket = await connect(world.client.app, nursery, target, head)
                for message in messages:
                    socket.put(message)
                    await trio.lowlevel.checkpoint()
                if not leaves and socket.accepted and not socket.ended.is_set():
                    # It goes on: an update that is right is taken, whatever came before.
                    before = len(socket.of("session.updated"))
                    socket.say("session.update", session={"type": "transcription"})
                    await socket.until(lambda: len(socket.of("session.updated")) > before)
            nursery.cancel_scope.cancel()
        if socket.closed is not None:
            assert socket.closed[0] != FAILED
        if socket.status:
            assert 400 <= socket.status < 500
            assert set(socket.error()) == {"message", "type", "code", "param"}
        for event in socket.of("error"):
            error = {key: event["error"][key] for key in ("message", "type", "code", "param")}
            assert error["type"] in ERROR["properties"]["type"]["enum"]
            assert error["code"] in ERROR["properties"]["code"]["enum"]
            assert error["code"] != "server_error", error
            assert len(error["message"]) <= 1100
        await world.wait_until(world.idle)
