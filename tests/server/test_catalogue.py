import pytest

from paraudio.engines import Load
from paraudio.engines.catalog import families
from paraudio.store import CATALOGUE, Entry, Store


@pytest.mark.models
@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=lambda entry: entry.name)
def test_the_family_of_a_catalogue_entry_takes_its_folder(entry: Entry, model_store: Store) -> None:
    path = model_store.path(entry.name)
    load = Load(
        path=str(path),
        task=entry.task,
        mode="offline",
        config=None,
        weight=None,
        options={},
        session_options={},
    )
    assert families()[entry.family].inspect(load)
