"""Markdown documents that people edit, in files and in a store at once."""

from octavo.service.vault.documents import Document, DocumentVersion, Listed, SyncReport, VaultStatus
from octavo.service.vault.folder import Problem
from octavo.service.vault.vault import Vault, existing_vault

__all__ = [
    "Document",
    "DocumentVersion",
    "Listed",
    "Problem",
    "SyncReport",
    "Vault",
    "VaultStatus",
    "existing_vault",
]
