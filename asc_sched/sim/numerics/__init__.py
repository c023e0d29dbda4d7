"""What each vector instruction computes, on numpy arrays, by the chip's rules where they are documented."""
