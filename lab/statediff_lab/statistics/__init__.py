"""Figures of samples that only a laboratory draws: intervals by resampling, and draws by seed."""
