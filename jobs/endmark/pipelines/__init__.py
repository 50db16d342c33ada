"""The examples' pipeline files."""

from pathlib import Path

AUCTION = Path(__file__).with_name("auction.yaml")
