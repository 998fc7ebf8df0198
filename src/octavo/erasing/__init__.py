"""Erasing for good: what belongs to somebody, taken out of everything that holds it, and a certificate that says what was done."""

from typing import TYPE_CHECKING

from octavo.util.importing import names_on_use

if TYPE_CHECKING:
    from octavo.erasing.certificate import Certificate, certificates
    from octavo.erasing.forgetting import forget
    from octavo.erasing.parts import scrub
    from octavo.erasing.subject import Subject, count_owned

# Every memory knows who a subject is; few ever forget one, and that needs all wraps and indexes.
_HOMES = {
    "octavo.erasing.certificate": "Certificate certificates",
    "octavo.erasing.forgetting": "forget",
    "octavo.erasing.parts": "scrub",
    "octavo.erasing.subject": "Subject count_owned",
}
__getattr__ = names_on_use(__name__, _HOMES)

__all__ = ["Certificate", "Subject", "certificates", "count_owned", "forget", "scrub"]
