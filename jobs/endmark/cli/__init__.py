"""The command line. Each group of commands has a module, and `options` has the options that they share."""
