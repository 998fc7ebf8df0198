"""Print a settings file with every default."""

import sys

from octavo.config import template

sys.stdout.write(template())
