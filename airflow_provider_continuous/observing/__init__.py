"""What those who look at a query tell others: metrics, lineage, how far its sources are."""
