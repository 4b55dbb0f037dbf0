"""The delivery gateways that come along: a function, a file of JSON lines, a webhook."""
