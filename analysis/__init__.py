"""What the finished trials say: tracking, tables, statistics, figures, report."""
