"""Objects as a user sees them: one module a noun, each with its rows and its columns."""
