"""What keeps secrets? One small file for each construction; knows nothing of search logs."""
