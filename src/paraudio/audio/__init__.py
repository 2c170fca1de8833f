"""Audio: decode, encode, resample and PCM, each a library behind one small function."""
