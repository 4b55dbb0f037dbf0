"""The checks of a deployment: what it is, what it promises, and what is left lying in it."""
