"""Kernels of the published measurements, in pyasc: real inputs of the time model's error table."""
