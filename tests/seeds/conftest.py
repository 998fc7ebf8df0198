"""Services on stores of every kind, a database that can be taken away from under them, and agents."""

from seed_000 import agent, elsewhere, memory_store, server_config

from serving import faulty, serve, store_url

__all__ = ["agent", "elsewhere", "faulty", "memory_store", "serve", "server_config", "store_url"]
