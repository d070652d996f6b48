"""Jobs that hold GPUs and do not use them: warned, then suspended or evicted as queues say."""
