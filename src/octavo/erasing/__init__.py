"""Erasing for good: what belongs to somebody, taken out of every place, and a certificate that says what was done."""

from octavo.erasing.certificate import Certificate, certificates
from octavo.erasing.forgetting import forget
from octavo.erasing.places import scrub
from octavo.erasing.subject import Subject, count_owned

__all__ = ["Certificate", "Subject", "certificates", "count_owned", "forget", "scrub"]
