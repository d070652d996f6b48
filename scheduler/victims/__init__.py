"""Who may be evicted for whom: one search for reclaim, preempt and consolidation."""
