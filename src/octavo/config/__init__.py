"""Settings: typed, checked, with their reasons, from a YAML file and the environment, and shown without their secrets."""

from octavo.config.loading import Resolved, load_settings, resolve_settings
from octavo.config.setting import local_path
from octavo.config.settings import (
    Database,
    Extraction,
    FailureQueue,
    Files,
    Layers,
    Privacy,
    Rerank,
    Retention,
    Server,
    Service,
    Settings,
    Telemetry,
    Vault,
    Vector,
    shown_settings,
    template,
)

__all__ = [
    "Database",
    "Extraction",
    "FailureQueue",
    "Files",
    "Layers",
    "Privacy",
    "Rerank",
    "Resolved",
    "Retention",
    "Server",
    "Service",
    "Settings",
    "Telemetry",
    "Vault",
    "Vector",
    "load_settings",
    "local_path",
    "resolve_settings",
    "shown_settings",
    "template",
]
