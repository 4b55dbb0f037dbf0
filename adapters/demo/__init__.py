"""The demo: a real job, a worker that is killed in the middle of it, and one that carries on."""
