"""The extension module (bindings/python); `make check-stubs` compares the two. Private: import from `tidings`."""

__all__ = ["__version__"]

__version__: str
