"""What is made of vectors and label probabilities: scores, rankings, classes, and the native encode route."""
