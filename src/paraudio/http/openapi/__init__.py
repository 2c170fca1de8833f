"""The OpenAPI document: what the server takes and gives, made from its routes.

Bounds and words come from the constants that the readers of requests use; the rest is held to the
handlers by tests that read, send and compare every field.
"""

from paraudio.http.openapi._document import document, operations, path_of, summary_of
from paraudio.http.openapi._route import documented
from paraudio.http.openapi._schema import Schema

__all__ = ["Schema", "document", "documented", "operations", "path_of", "summary_of"]
