"""HTTP servers: what speaks to sockets and calls the application. Entries of the registry ``http_servers``."""
