"""HTTP: the quart-trio application, one module a resource."""
