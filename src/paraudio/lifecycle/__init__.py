"""Lifecycle: registered models, their loads and retirements, residency, and shutdown phases."""
