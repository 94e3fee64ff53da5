"""What is tried: complete and tested, but its formats may change in any version."""
