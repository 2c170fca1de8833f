"""Transport: sockets, bounded reads and sends, drain; the only room that knows hypercorn."""
