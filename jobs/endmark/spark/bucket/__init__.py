"""What runs in the task of a bucket, and sees packed rows only."""
