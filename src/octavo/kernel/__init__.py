"""What is kept and what is asked: records, queries and ops, their meaning in Python, and what a backend must be able to do."""
