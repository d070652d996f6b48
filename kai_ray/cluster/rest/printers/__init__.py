"""What `kubectl get` shows of each kind: columns, and the cells of one object."""
