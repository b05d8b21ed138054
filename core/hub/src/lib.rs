//! Tidings makes an MCP server keep its word to a client that has gone away
