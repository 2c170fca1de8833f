"""The architecture page is true: who imports whom, and what stays out of the inner rooms."""

import importlib
import pkgutil
import subprocess
import sys
from types import ModuleType

import pytest
from tests.docs.rooms import SOURCE, imports, table

import paraudio

PACKAGES = sorted(
    module.name
    for module in pkgutil.walk_packages(paraudio.__path__, "paraudio.")
    if module.ispkg and not any(part.startswith("_") for part in module.name.split("."))
)


def test_the_page_lists_every_room() -> None:
    on_disk = {path.name.removesuffix(".py") for path in SOURCE.iterdir()}
    assert {name for name in table() if "." not in name} == on_disk - {
        "__init__",
        "__pycache__",
        "py.typed",
        "__main__",
    }


def test_a_room_imports_only_rooms_that_stand_above_it() -> None:
    order = list(table())
    for number, (name, room) in enumerate(table().items()):
        assert room.rooms <= set(order[:number]), name


@pytest.mark.parametrize("name", list(table()))
def test_the_page_says_what_a_room_imports(name: str) -> None:
    found = imports().get(name)
    assert (found.rooms.keys() if found else set()) == table()[name].rooms, found


def test_a_library_is_imported_only_where_the_page_says() -> None:
    owner = {library: name for name, room in table().items() for library in room.libraries}
    strays = [
        f"{found.libraries[library]} imports {library}"
        for name, found in imports().items()
        for library in found.libraries
        if library in owner and owner[library] != name
    ]
    assert strays == []


def test_a_room_uses_only_the_public_face_of_another() -> None:
    strays = [
        f"{module} imports {private}"
        for name, found in imports().items()
        if name != "testing"  # the kit for tests of engines belongs to engines
        for private, module in found.private.items()
    ]
    assert strays == []


@pytest.mark.parametrize("room", ["admission", "lifecycle", "journal"])
def test_importing_an_inner_room_loads_neither_web_framework_nor_engine_library(room: str) -> None:
    program = (
        f"import sys, paraudio.{room}\n"
        "unwanted = {'quart', 'quart_trio', 'hypercorn', 'onnxruntime', 'pocketsphinx'}\n"
        "sys.exit(', '.join(sorted(unwanted & set(sys.modules))) or None)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", PACKAGES)
def test_a_public_face_is_complete_and_importable(name: str) -> None:
    face = importlib.import_module(name)
    visible = {
        key: value
        for key, value in vars(face).items()
        if not key.startswith("_") and not isinstance(value, ModuleType)
    }
    # What a face needs for itself, such as a type of the standard library, it need not offer; one
    # that may not even import `typing` has a `TYPE_CHECKING` of its own.
    ours = {
        key
        for key, value in visible.items()
        if key != "TYPE_CHECKING"
        and str(getattr(value, "__module__", "paraudio")).startswith("paraudio")
    }
    assert ours <= set(face.__all__) <= set(visible)
    assert len(face.__all__) == len(set(face.__all__))


def test_there_are_public_faces_to_check() -> None:
    assert {"paraudio.admission", "paraudio.engines.isolation"} <= set(PACKAGES)
