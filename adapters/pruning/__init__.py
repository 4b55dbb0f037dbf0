"""Removing ended runs: which may go, their archive, and the batches in which they do."""
