"""The request core: one internal request, one stream of events, whatever API a client speaks."""
