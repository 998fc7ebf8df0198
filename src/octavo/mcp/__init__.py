"""Memory for programs that speak MCP: tools, resources and prompts, over stdio or at the server's `/mcp`. It needs the extra `mcp`.

The SDK takes a second to import: `callers`, `graph` and `install` do without it until somebody is served.
"""
