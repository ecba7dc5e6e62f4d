"""Where agents are trained and tested elsewhere: statediff as judge in other programs."""
