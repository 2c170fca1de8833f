"""The places of ``bind``: each one once, and no Unix socket where something else is."""

import socket
from pathlib import Path

import pytest
from tests.config.samples import loaded, unloadable, written

from paraudio.config._problems import shown


@pytest.mark.parametrize(
    ("places", "twice"),
    [
        (["127.0.0.1:80", "127.0.0.1:080"], (1, 0)),
        ([":80", "h:80", "[::1]:80", "[0:0::1]:80"], (3, 2)),
        (["localhost:80", "unix:/run/a", "LOCALHOST:80"], (2, 0)),
        (["unix:/run/a", "unix:/run//b/../a"], (1, 0)),
        (["inherited", "127.0.0.1:0", "inherited"], (2, 0)),
        (["127.0.0.1:0", "127.0.0.1:0", "unix:/run/a", "unix:/run/b", "h:80", "h:81"], None),
    ],
)
def test_a_place_is_bound_once(
    tmp_path: Path, places: list[str], twice: tuple[int, int] | None
) -> None:
    path = written(tmp_path, {"models": [], "bind": places})
    if twice is None:
        assert loaded(path).settings.bind == tuple(places)
        return
    (problem,) = unloadable(path).problems
    second, first = twice
    assert str(problem) == (
        f"{path}:{4 + second}: bind[{second}] must not be {shown(places[second])}, "
        f"which bind[{first}] is already; keep one of them"
    )


@pytest.mark.parametrize("what", ["a file", "a folder", "a link"])
def test_what_is_no_socket_is_told_where_one_is_to_be(tmp_path: Path, what: str) -> None:
    place = tmp_path / "s"
    if what == "a folder":
        place.mkdir()
    elif what == "a link":
        place.symlink_to("nowhere")
    else:
        place.touch()
    (problem,) = unloadable(None, {}, {"bind": ("127.0.0.1:0", f"unix:{place}")}).problems
    assert str(problem) == (
        "--bind: bind[1] must be a Unix socket or a path that is free, not "
        f"{shown(f'unix:{place}')}, which is {what}; take another path, or move that away"
    )


def test_a_socket_and_a_free_path_may_be_bound(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "s"))
    places = (f"unix:{tmp_path}/s", f"unix:{tmp_path}/free", f"unix:{tmp_path}/none/{'n' * 300}")
    assert loaded(None, {}, {"bind": places}).settings.bind == places
