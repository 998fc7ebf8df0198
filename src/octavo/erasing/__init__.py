"""Erasing for good: what belongs to somebody, taken out of everything that holds it, and a certificate that says what was done."""

from octavo.erasing.certificate import Certificate, certificates
from octavo.erasing.forgetting import forget
from octavo.erasing.parts import scrub
from octavo.erasing.subject import Subject, count_owned

__all__ = ["Certificate", "Subject", "certificates", "count_owned", "forget", "scrub"]
