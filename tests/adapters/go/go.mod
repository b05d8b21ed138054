module github.com/tidings-mcp/tidings/tests/adapters/go

go 1.25.0

require github.com/tidings-mcp/tidings/bindings/go v0.1.0

replace github.com/tidings-mcp/tidings/bindings/go => ../../../bindings/go
