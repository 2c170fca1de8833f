"""Admission: one FIFO a model, with slots for requests and a barrier for managers."""
