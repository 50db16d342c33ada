"""Streaming frames whose punctuations pass every step by Tucker's rules."""

from endmark.frame.punctuated_frame import PunctuatedFrame

__all__ = ["PunctuatedFrame"]
