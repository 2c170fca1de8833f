"""HTTP: the quart-trio application, one module a resource."""

from paraudio.http._app import Api, create_app

__all__ = ["Api", "create_app"]
