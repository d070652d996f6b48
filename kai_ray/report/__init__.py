"""What jobs and queues had and what it cost, from the history: data, text, CSV, JSON and pages."""
