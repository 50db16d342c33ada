"""Streaming frames that carry their punctuations through every step by Tucker's rules."""

from endmark.frame.configure import configure
from endmark.frame.punctuated_frame import PunctuatedFrame

__all__ = ["PunctuatedFrame", "configure"]
