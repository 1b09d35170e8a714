"""HTTP: the starlette application, what every route shares (errors, keys, CORS, bodies, streams), and the routes."""
