"""HTTP/2 frames in no sensible order: nothing fails of it, and the next client is served."""

import pytest
import trio
from hpack import Encoder
from hypercorn.utils import UnexpectedMessageError
from hyperframe.frame import SettingsFrame
from tests.transport.h2kit import connect_h2
from tests.transport.kit import (
    Message,
    Receive,
    Send,
    answer,
    body_of,
    hello,
    routes,
    serving,
    settle,
    until,
)
from tests.transport.noise import PREFACE, Noise
from tests.transport.wskit import echo as ws_echo


async def app(scope: Message, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await ws_echo(scope, receive, send)
    else:
        await HTTP(scope, receive, send)


async def read(scope: Message, receive: Receive, send: Send) -> None:
    await answer(send, await body_of(receive))


HTTP = routes(root=hello, read=read, ws=hello)


@pytest.mark.parametrize("seed", range(4))
async def test_noise(seed: int) -> None:
    noise = Noise(seed)
    async with serving(app, seconds=120) as served:
        for _ in range(40):
            client = await served.connect()
            noise.encoder, noise.highest = Encoder(), 1
            try:
                await client.send(PREFACE + SettingsFrame(0, {}).serialize())
                for _ in range(noise.random.randrange(1, 25)):
                    await client.send(noise.packet())
                    if noise.random.random() < 0.5:
                        await trio.lowlevel.checkpoint()
            except trio.BrokenResourceError:
                pass  # the server had enough
            if noise.random.random() < 0.3:
                await settle()
            client.close()
        await until(lambda: served.server.connections().requests == 0)
        assert (await (await connect_h2(served)).ask()).body == b"/"
        # A websocket whose client leaves while it is being accepted.
        for what in served.errors_of(UnexpectedMessageError):
            assert what.startswith("the application failed on WEBSOCKET ")
