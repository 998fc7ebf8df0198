"""How fast Octavo is, always as a ratio to something else that did the same rows in the same run."""
