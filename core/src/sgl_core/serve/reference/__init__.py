"""What the server answers, as data: every route with its body's model and what of it is served. OpenAPI and docs come from it."""
