"""A realtime session within a stream of HTTP/2 (RFC 8441)."""

import base64
import json

import numpy as np
import pytest
import trio
from tests.http.conftest import EARS, OpenWorld
from tests.http.realtime_sessions import MANUAL, VAD
from tests.http.realtimekit import RATE, Event
from tests.http.test_sockets import Served, serve
from tests.transport.h2kit import H2Client
from tests.transport.h2wskit import H2WsClient, open_h2ws
from tests.transport.kit import Client
from wsproto.events import CloseConnection, TextMessage

TARGET = b"/v1/realtime?model=ears"
COMPLETED = "conversation.item.input_audio_transcription.completed"


async def connect(served: Served) -> H2Client:
    stream = await trio.open_tcp_stream("127.0.0.1", served.port)
    served.stack.push_async_callback(stream.aclose)
    return await H2Client(Client(stream, stream)).start()


async def say(websocket: H2WsClient, kind: str, **fields: object) -> None:
    await websocket.send(TextMessage(data=json.dumps({"type": kind, **fields})))


async def saw(websocket: H2WsClient, kind: str) -> Event:
    text = ""
    while True:
        one = await websocket.next()
        assert isinstance(one, TextMessage), one
        text += one.data
        if one.message_finished:
            event: Event = json.loads(text)
            text = ""
            assert event["type"] != "error", event
            if event["type"] == kind:
                return event


async def test_several_sessions_are_heard_on_one_connection(open_world: OpenWorld) -> None:
    async with serve(open_world, EARS, VAD) as served:
        client = await connect(served)
        sessions = [await open_h2ws(client, TARGET) for _ in range(3)]
        sound = base64.b64encode(np.full(RATE, 8000, dtype="<i2").tobytes()).decode()
        for one in sessions:
            await say(one, "session.update", session=MANUAL)
            await saw(one, "session.updated")
            await say(one, "input_audio_buffer.append", audio=sound)
            await say(one, "input_audio_buffer.commit")
        for one in sessions:
            assert (await saw(one, COMPLETED))["transcript"]
        for one in sessions:
            await one.send(CloseConnection(code=1000))
            assert (await one.closed()).code == 1000
            await one.end()
        await served.wait_idle()


@pytest.mark.parametrize("how", ["reset", "end", "fin"])
async def test_leaving_gives_back_what_a_session_holds(how: str, open_world: OpenWorld) -> None:
    async with serve(open_world, EARS, VAD) as served:
        client = await connect(served)
        websocket = await open_h2ws(client, TARGET)
        await saw(websocket, "session.created")
        if how == "reset":
            await client.reset(websocket.stream)
        elif how == "end":
            await websocket.end()
        else:
            client.client.close()
        await served.wait_idle()


async def test_a_session_of_an_unknown_model_is_refused_on_its_stream(
    open_world: OpenWorld,
) -> None:
    async with serve(open_world, EARS, VAD) as served:
        client = await connect(served)
        websocket = await open_h2ws(client, b"/v1/realtime?model=none", accepted=False)
        got = await client.answer(websocket.stream)
        assert (got.status, json.loads(got.body)["error"]["code"]) == (404, "model_not_found")
        assert (await client.ask(b"/health/live")).status == 200
        await served.wait_idle()
