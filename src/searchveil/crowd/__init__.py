"""A search log that nobody holds (CrowdLogging, Feild et al. 2011): clients, relays, randomness server and server."""
