"""Markdown documents that people edit, in files and in a store at once."""

from octavo.service.vault.documents import Document, DocumentVersion, Listed, SyncReport, VaultStatus
from octavo.service.vault.folder import Problem
from octavo.service.vault.vault import Vault

__all__ = ["Document", "DocumentVersion", "Listed", "Problem", "SyncReport", "Vault", "VaultStatus"]
