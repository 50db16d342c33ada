"""The cost models of lookup and stream join, by which `endmark plan` and the dashboard predict."""
