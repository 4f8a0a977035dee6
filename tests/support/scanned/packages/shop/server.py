from fastmcp import FastMCP

mcp = FastMCP("shop")
