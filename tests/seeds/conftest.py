"""Services on stores of every kind, and a database that can be taken away from under them."""

from serving import faulty, serve, store_url

__all__ = ["faulty", "serve", "store_url"]
