"""statediff decides, with evidence, if an agent's run changed the world as its task allowed."""

__version__ = "0.1.0"
