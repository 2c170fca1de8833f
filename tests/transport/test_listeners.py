import errno
import os
import socket
import stat
from pathlib import Path

import pytest
import trio
from tests.transport.kit import descriptors, hello, routes, serving

from paraudio.errors import ConfigError
from paraudio.transport import _listeners as listeners_module
from paraudio.transport import inherited_sockets, open_tcp, open_unix, tls_context


def close_all(listeners: list[trio.SocketListener]) -> None:
    for listener in listeners:
        listener.socket.close()


async def test_ipv6_works() -> None:
    listeners = await open_tcp("::1", 0)
    async with serving(routes(root=hello), listeners=listeners) as served:
        client = await served.connect()
        assert (await client.ask()).body == b"/"


async def test_a_name_listens_on_each_of_its_addresses_with_one_port() -> None:
    listeners = await open_tcp("localhost", 0)
    families = {listener.socket.family for listener in listeners}
    ports = {listener.socket.getsockname()[1] for listener in listeners}
    assert len(ports) == 1
    assert len(families) == len(listeners)
    async with serving(routes(root=hello), listeners=listeners):
        for listener in listeners:
            address = listener.socket.getsockname()
            async with await trio.open_tcp_stream(address[0], address[1]) as stream:
                await stream.send_all(b"GET / HTTP/1.0\r\n\r\n")
                assert (await stream.receive_some()).startswith(b"HTTP/1.1 200")


async def test_an_empty_host_is_every_interface() -> None:
    listeners = await open_tcp("", 0)
    assert {one.socket.getsockname()[0] for one in listeners} <= {"0.0.0.0", "::"}  # noqa: S104 - what is tested
    close_all(listeners)


async def test_a_taken_port_is_an_error_that_leaves_nothing_open() -> None:
    before = descriptors()
    taken = await open_tcp("127.0.0.1", 0)
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the number says which
        await open_tcp("127.0.0.1", taken[0].socket.getsockname()[1])
    assert caught.value.errno == errno.EADDRINUSE
    close_all(taken)
    assert descriptors() == before


async def test_a_free_port_is_tried_again_when_another_address_has_it_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries: list[int] = []
    bind_all = listeners_module._bind_all

    async def unlucky(*arguments: object) -> list[trio.SocketListener]:
        tries.append(1)
        if len(tries) < 3:
            raise OSError(errno.EADDRINUSE, "taken")
        return await bind_all(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(listeners_module, "_bind_all", unlucky)
    close_all(await open_tcp("127.0.0.1", 0))
    assert len(tries) == 3


async def test_a_host_without_an_address_names_the_setting() -> None:
    with pytest.raises(ConfigError) as caught:
        await open_tcp("no such host", 0)
    assert caught.value.param == "host"
    assert "no such host" in caught.value.message


async def test_a_unix_socket_works_and_is_private(tmp_path: Path) -> None:
    place = tmp_path / "api.sock"
    listener = await open_unix(place)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    async with serving(routes(root=hello), listeners=[listener]) as served:
        client = await served.connect()
        assert (await client.ask()).body == b"/"


async def test_a_socket_that_a_dead_process_left_is_replaced(tmp_path: Path) -> None:
    place = tmp_path / "api.sock"
    (await open_unix(place)).socket.close()
    assert place.exists()
    listener = await open_unix(place, mode=0o660)
    assert stat.S_IMODE(place.stat().st_mode) == 0o660
    listener.socket.close()


async def test_a_socket_that_is_in_use_is_not_replaced(tmp_path: Path) -> None:
    place = tmp_path / "api.sock"
    listener = await open_unix(place)
    with pytest.raises(OSError) as caught:  # noqa: PT011
        await open_unix(place)
    assert caught.value.errno == errno.EADDRINUSE
    listener.socket.close()


async def test_a_file_in_the_way_is_not_touched(tmp_path: Path) -> None:
    place = tmp_path / "api.sock"
    place.write_text("precious")
    with pytest.raises(OSError):  # noqa: PT011
        await open_unix(place)
    assert place.read_text() == "precious"


async def test_inherited_sockets_are_taken_once(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = socket.create_server(("127.0.0.1", 0))
    number = passed.detach()
    os.set_inheritable(number, True)
    monkeypatch.setattr(listeners_module, "FIRST_INHERITED", number)
    monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
    monkeypatch.setenv("LISTEN_FDS", "1")
    monkeypatch.setenv("LISTEN_FDNAMES", "api")
    listeners = inherited_sockets()
    assert [one.socket.fileno() for one in listeners] == [number]
    assert not os.get_inheritable(number)
    assert not {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} & os.environ.keys()
    assert inherited_sockets() == []
    async with serving(routes(root=hello), listeners=listeners) as served:
        assert (await (await served.connect()).ask()).body == b"/"


@pytest.mark.parametrize(
    ("pid", "count"), [("1", "1"), ("", ""), (str(os.getpid()), "many"), (str(os.getpid()), "0")]
)
def test_sockets_meant_for_another_process_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, pid: str, count: str
) -> None:
    monkeypatch.setenv("LISTEN_PID", pid)
    monkeypatch.setenv("LISTEN_FDS", count)
    assert inherited_sockets() == []


@pytest.mark.parametrize("kind", ["datagram", "not listening", "file", "closed"])
def test_a_descriptor_that_is_no_listening_socket_is_refused(
    monkeypatch: pytest.MonkeyPatch, kind: str, tmp_path: Path
) -> None:
    if kind == "file":
        number = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)
    elif kind == "closed":
        number = os.dup(0)
        os.close(number)
    else:
        number = socket.socket(
            type=socket.SOCK_DGRAM if kind == "datagram" else socket.SOCK_STREAM
        ).detach()
    monkeypatch.setattr(listeners_module, "FIRST_INHERITED", number)
    monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
    monkeypatch.setenv("LISTEN_FDS", "1")
    with pytest.raises(ConfigError, match="LISTEN_FDS"):
        inherited_sockets()
    if kind == "file":
        os.close(number)


def test_a_certificate_that_is_none_is_told_what_it_must_be(tmp_path: Path) -> None:
    (tmp_path / "a.pem").write_text("no certificate")
    both = str(tmp_path / "a.pem")
    with pytest.raises(ConfigError, match="both must be PEM, and belong together"):
        tls_context(both, both)
    missing = str(tmp_path / "b.pem")
    with pytest.raises(ConfigError, match=r"b\.pem' and .* No such file or directory$"):
        tls_context(missing, both)
