"""The readings of the journal: what a backend's rows hold of a record. Pure; no SQL, no bytes."""
