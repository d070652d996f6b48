"""The console: what a cluster does, as JSON, live events and pages for a browser."""
