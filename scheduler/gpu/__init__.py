"""Parts of GPUs: shared devices, MIG profiles and claims, as tables beside the snapshot's."""
