"""``GET /``: the page and its policy; what it does is tested in a browser."""

import base64
import hashlib
import re

from tests.http.conftest import OpenWorld
from trio.testing import MockClock


async def test_the_page_is_one_document_with_a_policy_for_its_own_parts(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(settings={"ui_enabled": True, "api_keys": ["k"]}) as world:
        reply = await world.client.get("/")
    assert reply.status == 200
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    page, policy = reply.body.decode(), reply.headers["content-security-policy"]
    for tag in ("style", 'script type="module"'):
        (part,) = re.findall(rf"<{tag}>(.+?)</{tag.split()[0]}>", page, flags=re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'; ")
    assert not re.search(r"https?://|//cdn", page), "it needs nothing from elsewhere"
    assert reply.headers["x-content-type-options"] == "nosniff"


async def test_without_the_setting_there_is_no_page(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world() as world:
        reply = await world.client.get("/")
    assert reply.status == 404
    assert "ui_enabled" in reply.error()["message"]
