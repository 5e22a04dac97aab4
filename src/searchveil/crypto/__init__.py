"""What keeps secrets? One small file for each construction, checked against the vectors of its standard."""
