module github.com/tidings-mcp/tidings/bindings/go

go 1.25.0
