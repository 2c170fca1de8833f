"""HTTP: the quart-trio application, one module a resource."""

from paraudio.http._app import ROUTES, Api, create_app
from paraudio.http._core import Gate, Route

__all__ = ["ROUTES", "Api", "Gate", "Route", "create_app"]
