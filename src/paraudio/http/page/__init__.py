"""The web page: one document, put together from its three parts, which needs nothing else."""

from paraudio.http.page._page import CONTENT_TYPE, ROUTES

__all__ = ["CONTENT_TYPE", "ROUTES"]
