"""``paraudio serve`` with the setting ``tls``, as the clients of a house see it."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import trio
from tests.certificates import Certificates, certified
from tests.server.harness import Served, serving, simulated, started

SPEECH: Final = "/v1/audio/speech"
KEY: Final = "a-key-that-is-long-enough"

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certified(tmp_path_factory.mktemp("tls"))


def client(served: Served, house: Certificates, **more: Any) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {KEY}"}
    return httpx.AsyncClient(
        base_url=served.url, verify=house.client(), headers=headers, timeout=30, **more
    )


@pytest.mark.parametrize(
    ("version", "protocols"),
    [("HTTP/1.1", {"http2": False}), ("HTTP/2", {"http1": False, "http2": True})],
)
async def test_httpx_speaks_both_versions_over_tls(
    tmp_path: Path, house: Certificates, version: str, protocols: dict[str, bool]
) -> None:
    more: dict[str, Any] = {"tls": house.setting, "api_keys": [KEY]}
    async with serving(tmp_path, [simulated()], **more) as served:
        assert served.url.startswith("https://")
        async with client(served, house, **protocols) as http:
            body = {"model": "sim", "input": "Good morning."}
            answer = await http.post(SPEECH, json=body)
            assert (answer.status_code, answer.http_version) == (200, version)
            assert answer.content.startswith(b"RIFF")
            streamed = await http.post(SPEECH, json={**body, "stream_format": "sse"})
            assert streamed.text.endswith("data: [DONE]\n\n")
            refused = await http.get("/v1/models", headers={"Authorization": "Bearer wrong"})
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"] == "Bearer"
            assert refused.json()["error"]["code"] == "unauthorized"
            large = await http.post(SPEECH, json={**body, "input": "word " * 100_000})
            assert large.status_code == 200


async def curl(*words: str) -> subprocess.CompletedProcess[bytes]:
    return await trio.run_process(
        ["curl", "--silent", "--show-error", "--max-time", "60", *words],
        capture_stdout=True,
        capture_stderr=True,
        check=False,
    )


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
async def test_curl_speaks_over_tls_and_trusts_nobody_else(
    tmp_path: Path, house: Certificates
) -> None:
    async with serving(tmp_path, [simulated()], tls=house.setting) as served:
        url = f"{served.url}{SPEECH}"
        body = ("-d", json.dumps({"model": "sim", "input": "Good morning."}))
        trust = ("--cacert", str(house.authority))
        for version in ("--http1.1", "--http2"):
            done = await curl(version, *trust, *body, "-w", "%{http_version}", url)
            assert done.returncode == 0, done.stderr
            assert done.stdout.startswith(b"RIFF")
            assert done.stdout.endswith(b"1.1" if version == "--http1.1" else b"2")
        stranger = await curl(*body, url)
        assert stranger.returncode == 60, "a certificate that nobody vouches for was trusted"
        plain = await curl(*body, url.replace("https:", "http:"))
        assert plain.returncode != 0
        assert b"RIFF" not in plain.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
async def test_a_unix_socket_speaks_tls_like_every_other_listener(
    tmp_path: Path, house: Certificates
) -> None:
    place = tmp_path / "paraudio.sock"
    bind = [f"unix:{place}", "127.0.0.1:0"]
    async with serving(tmp_path, [simulated()], tls=house.setting, bind=bind) as served:
        tried = await served.heard("try: curl ")
        assert f"--unix-socket {place} https://localhost{SPEECH}" in tried
        await served.heard("listening on https://127.0.0.1:")
        words = ("--unix-socket", str(place), "--cacert", str(house.authority))
        done = await curl(*words, "https://localhost/health/live")
        assert (done.returncode, json.loads(done.stdout)["status"]) == (0, "ok")
        plain = await curl("--unix-socket", str(place), "http://localhost/health/live")
        assert plain.returncode != 0
        assert plain.stdout == b""


@pytest.mark.parametrize("wrong", ["missing", "swapped"])
async def test_a_certificate_that_cannot_be_used_is_told_at_the_start(
    tmp_path: Path, house: Certificates, wrong: str
) -> None:
    setting = {
        "missing": {"cert": str(house.cert), "key": str(tmp_path / "nowhere.pem")},
        "swapped": {"cert": str(house.key), "key": str(house.cert)},
    }[wrong]

    def failed() -> tuple[int, list[str]]:
        with started(tmp_path, [simulated()], tls=setting) as served:
            served.process.wait(30)
            ended = served.end()
            return ended.code, ended.said

    code, said = await trio.to_thread.run_sync(failed)
    assert code == 2
    assert any("tls" in line for line in said), said
