"""Tidings makes an MCP server keep its word to a client that has gone away."""

from ._native import __version__

__all__ = ["__version__"]
