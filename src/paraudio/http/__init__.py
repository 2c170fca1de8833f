"""HTTP: the quart-trio application, one module a resource."""

from paraudio.http._app import ROUTES, Api, create_app
from paraudio.http._core import Gate, Route
from paraudio.http._requests import phase_of, places_by_request
from paraudio.http._spans import open_tracing
from paraudio.http.openapi import path_of, summary_of

__all__ = [
    "ROUTES",
    "Api",
    "Gate",
    "Route",
    "create_app",
    "open_tracing",
    "path_of",
    "phase_of",
    "places_by_request",
    "summary_of",
]
