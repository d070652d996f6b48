"""What the API's objects look like, for clients that ask: OpenAPI v3 and v2."""
