"""The auction workload: a master table, two punctuated streams and some bad records."""
