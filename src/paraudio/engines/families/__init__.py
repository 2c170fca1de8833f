"""The families that paraudio knows, one module each."""
