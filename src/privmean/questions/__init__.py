"""What can be asked about people: each question is a value that is declared, planned and asked."""
