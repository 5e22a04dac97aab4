"""What is promised? Guarantees, the noise behind them, the formulas that calibrate it, and the budget ledger."""
