"""The command line: a root dispatcher that imports nothing heavy, and one module per subcommand."""
