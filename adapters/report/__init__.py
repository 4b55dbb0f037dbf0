"""The audit page: one HTML file that shows what became of some runs."""
