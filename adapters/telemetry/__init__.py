"""What a journal tells while it works: spans, metrics and the fields of its log lines."""
