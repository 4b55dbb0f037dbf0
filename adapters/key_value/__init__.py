"""A RunStore over any ordered map of keys to bytes that has transactions."""
