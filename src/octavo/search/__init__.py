"""Finding again: questions become terms, stores give candidates, and one ranking here orders them on every backend."""
