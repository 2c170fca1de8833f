"""The model store: what can be fetched, by which package name, checked by hash."""

from paraudio.store._catalogue import CATALOGUE, Entry, File
from paraudio.store._downloading import Progress
from paraudio.store._errors import DiskFullError, FetchError, IntegrityError, StoreError
from paraudio.store._installer import Install, Installer
from paraudio.store._shelf import Shelf, open_shelf
from paraudio.store._store import Store, default_home, no_progress

__all__ = [
    "CATALOGUE",
    "DiskFullError",
    "Entry",
    "FetchError",
    "File",
    "Install",
    "Installer",
    "IntegrityError",
    "Progress",
    "Shelf",
    "Store",
    "StoreError",
    "default_home",
    "no_progress",
    "open_shelf",
]
