"""The model store: what can be fetched, from where, checked by hash."""
