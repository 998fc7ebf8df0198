"""What a SQL database must be asked differently from the others: one small class for each."""

from octavo.stores.sql.dialects.base import Counters, Dialect, Row, chunks
from octavo.stores.sql.dialects.mysql import MySQL
from octavo.stores.sql.dialects.postgresql import PostgreSQL
from octavo.stores.sql.dialects.sqlite import SQLite

__all__ = ["Counters", "Dialect", "MySQL", "PostgreSQL", "Row", "SQLite", "chunks"]
