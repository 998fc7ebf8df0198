"""`octavo` as it was before the last migration of its SQL tables; its workers import this file too."""

from octavo.cli import main
from octavo.stores.sql import migrations

migrations.MIGRATIONS = migrations.MIGRATIONS[:-1]

if __name__ == "__main__":
    main()
