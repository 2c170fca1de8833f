from pathlib import Path

import pytest
from tests.config.samples import unloadable, written

from paraudio.config import SettingsError
from paraudio.config._documents import read_document


def refusal(path: Path) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        read_document(path)
    return caught.value


def test_each_key_knows_its_line(tmp_path: Path) -> None:
    text = '{\n "a": {"b\\"\\u0041": [1,\n  {"c": "}\\\\"}, [[\n 2]]]},\n\n "d": null}'
    document = read_document(written(tmp_path, text))
    assert document.lines == {
        ("a",): 2,
        ("a", 'b"A'): 2,
        ("a", 'b"A', 0): 2,
        ("a", 'b"A', 1): 3,
        ("a", 'b"A', 1, "c"): 3,
        ("a", 'b"A', 2): 3,
        ("a", 'b"A', 2, 0): 3,
        ("a", 'b"A', 2, 0, 0): 4,
        ("d",): 6,
    }
    assert document.source(("a", 'b"A', 1, "missing")) == f"{document.path}:3"
    assert document.source(("x",)) == str(document.path)


@pytest.mark.parametrize(
    ("text", "key", "lines"),
    [
        ('{"port": 1,\n "port": 2}', "port", (1, 2)),
        ('{"models": [{},\n{"id": 1,\n"slots": 1,\n"slots": 2}]}', "models[1].slots", (3, 4)),
        ('{"a": {"x": 1}, \n"a": {}}', "a", (1, 2)),
        ('{"a": 1,\n\n"\\u0061": 2}', "a", (1, 3)),
    ],
)
def test_a_key_given_twice_is_refused_with_its_path(
    tmp_path: Path, text: str, key: str, lines: tuple[int, int]
) -> None:
    path = written(tmp_path, text)
    error = refusal(path)
    assert error.param == key
    (problem,) = error.problems
    assert problem.source == f"{path}:{lines[1]}"
    assert f"{key} is given twice, first in line {lines[0]}" in problem.message


def test_equal_keys_of_different_objects_are_no_duplicates(tmp_path: Path) -> None:
    text = '{"a": [{"x": 1}, {"x": 2}], "x": {"x": {"x": 3}}}'
    document = read_document(written(tmp_path, text))
    assert document.data == {"a": [{"x": 1}, {"x": 2}], "x": {"x": {"x": 3}}}


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("", 1, "Expecting value"),
        ('{\n"port": 1,\nx}', 3, "property name"),
        ("port: 8080", 1, "Expecting value"),
        ('{"a": 1} x', 1, "Extra data"),
        ("[1]", None, "the top level must be an object"),
        ("[" * 100_000, None, "nested too deeply"),
        ('{"port": ' + "9" * 5000 + "}", None, "too many digits"),
    ],
)
def test_malformed_json_is_refused_with_its_line(
    tmp_path: Path, text: str, line: int | None, why: str
) -> None:
    path = written(tmp_path, text)
    error = refusal(path)
    (problem,) = error.problems
    assert why in problem.message
    assert problem.source == (str(path) if line is None else f"{path}:{line}")


@pytest.mark.parametrize(
    ("text", "given"), [("[]", "a list"), ('"x"', '"x"'), ("null", "null"), ("3", "3")]
)
def test_json_that_is_no_object_is_not_called_invalid(
    tmp_path: Path, text: str, given: str
) -> None:
    (problem,) = refusal(written(tmp_path, text)).problems
    assert problem.message == f"the top level must be an object, {{ … }}, not {given}"


def test_nan_is_refused_at_its_key(tmp_path: Path) -> None:
    path = written(tmp_path, '{\n"busy_timeout_ms": NaN,\n"idle_unload_ms": -Infinity}')
    problems = {problem.key: problem for problem in unloadable(path).problems}
    assert problems["busy_timeout_ms"].source == f"{path}:2"
    assert problems["idle_unload_ms"].source == f"{path}:3"


def test_toml_is_read_by_its_name(tmp_path: Path) -> None:
    path = written(tmp_path, 'port = 9\n[[models]]\nid = "a"\n', "server.toml")
    assert read_document(path).data == {"port": 9, "models": [{"id": "a"}]}


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("port =", 1, "Invalid value (at the end)"),
        ("a = 1\r\n\r\nport = \r\n", 3, "Invalid value"),
        ("port = 1\nx = [1,\n\n", 2, "Invalid value (at the end)"),
        ("a = 1\nb = {c = 1, c = 2}\n", 2, "Duplicate inline table key 'c'"),
        (
            "port = 1\n\nport = 2",
            3,
            "Cannot overwrite a value; is its key given before? (at the end)",
        ),
        ("[a]\n[b]\n[a]\n", 3, "Cannot declare ('a',) twice; is its key given before?"),
        ("x = " + "[" * 50_000, None, "it is nested too deeply"),
    ],
)
def test_malformed_toml_is_refused_with_its_line(
    tmp_path: Path, text: str, line: int | None, why: str
) -> None:
    path = tmp_path / "server.toml"
    path.write_bytes(text.encode())
    (problem,) = refusal(path).problems
    assert problem.message == f"this is no valid TOML: {why}"
    assert problem.source == (str(path) if line is None else f"{path}:{line}")


def test_a_byte_order_mark_is_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "server.json"
    path.write_bytes(b'\xef\xbb\xbf{"port": 1}')
    assert read_document(path).data == {"port": 1}


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    assert "there is no such file" in refusal(tmp_path / "none.json").message
    assert "Is a directory" in refusal(tmp_path).message
    (tmp_path / "x.json").write_bytes(b'{"\xff": 1}')
    assert "it is not UTF-8 text (byte 2)" in refusal(tmp_path / "x.json").message
