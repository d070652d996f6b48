"""Elasticity as an actor: replicas follow the room, within the bounds that the user wrote."""
