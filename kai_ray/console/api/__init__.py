"""What the console answers: one module a page, functions from a request to a shape."""
