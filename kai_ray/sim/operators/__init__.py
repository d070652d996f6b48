"""Stand-ins for the operators of a real cluster: they make the objects those operators make."""
