"""How one configuration is trained and measured."""
