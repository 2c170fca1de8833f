"""What can go wrong between a package index and the store."""

from paraudio.errors import LoadError


class StoreError(LoadError):
    """A model's files could not be brought into the store; nothing half-done is left there."""


class FetchError(StoreError):
    """The package that carries the model could not be downloaded."""


class DiskFullError(StoreError):
    """There is not enough space for the model where the store is."""


class IntegrityError(StoreError):
    """What was downloaded or given is not the file that the catalogue knows."""
