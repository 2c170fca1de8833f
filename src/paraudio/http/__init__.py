"""HTTP: the quart-trio application, one module a resource."""

from paraudio.http._app import ROUTES, Api, create_app
from paraudio.http._core import Gate, Route
from paraudio.http.openapi import path_of, summary_of

__all__ = ["ROUTES", "Api", "Gate", "Route", "create_app", "path_of", "summary_of"]
