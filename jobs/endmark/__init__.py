"""Near-real-time ETL on Spark whose state is bounded by what the data says is finished."""
