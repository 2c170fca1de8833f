"""Public helpers for tests: virtual time, the conformance kit, a stepper for state machines."""
