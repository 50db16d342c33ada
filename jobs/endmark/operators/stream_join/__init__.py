"""The stream join: SHJ, XJoin, PJoin, WJoin, MJoin and PWJoin are presets of one operator."""
