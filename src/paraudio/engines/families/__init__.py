"""The families that paraudio knows, one module each; `paraudio.engines.catalog` makes them."""

__all__: list[str] = []
