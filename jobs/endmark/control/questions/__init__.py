"""Questions of what keeps a key open, and their answers."""
