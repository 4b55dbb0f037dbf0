"""Exporting, importing and copying journals: streams as they are, with their hashes."""
