"""HTTP below the routes: tokens, limits, TLS, headers for browsers, and answers that clients share."""
